from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("deployments", "0006_move_passed_over"),
    ]

    operations = [
        migrations.RemoveField(model_name="replica", name="rejected"),
    ]
