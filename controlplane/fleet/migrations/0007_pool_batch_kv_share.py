from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("fleet", "0006_card_price"),
    ]

    operations = [
        migrations.AddField(
            model_name="pool",
            name="batch_kv_share",
            field=models.FloatField(null=True),
        ),
    ]
