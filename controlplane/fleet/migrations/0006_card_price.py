from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("fleet", "0005_memory"),
    ]

    operations = [
        migrations.AddField(
            model_name="node",
            name="card_price_per_hour",
            field=models.FloatField(blank=True, null=True),
        ),
    ]
