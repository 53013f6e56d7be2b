from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("fleet", "0005_memory"),
    ]

    operations = [
        migrations.AddField(
            model_name="pool",
            name="batch_kv_share",
            field=models.FloatField(null=True),
        ),
    ]
