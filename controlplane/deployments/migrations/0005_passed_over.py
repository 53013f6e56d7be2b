import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("deployments", "0004_memory"),
    ]

    operations = [
        migrations.CreateModel(
            name="PassedOver",
            fields=[
                (
                    "replica",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="passed_over",
                        serialize=False,
                        to="deployments.replica",
                    ),
                ),
                ("rejected", models.JSONField(default=list)),
            ],
        ),
    ]
