"""Django settings. One file; every setting that an operator may change is read from the environment here."""

from __future__ import annotations

import os
from pathlib import Path

from controlplane import env, version
from controlplane.lib import keys, valkey

BASE_DIR = Path(__file__).resolve().parent.parent
HOME = env.headworks_home()

DEBUG = env.read_bool("HEADWORKS_DEBUG", False)
# No default outside DEBUG: nothing starts on a secret that everybody knows.
SECRET_KEY = env.read_secret("HEADWORKS_SECRET_KEY", "debug-only" if DEBUG else None)
# The machine's own names always count (health checks use them), and the one address that the console is bound to.
ALLOWED_HOSTS = [*env.read_list("HEADWORKS_ALLOWED_HOSTS"), "localhost", "127.0.0.1", "[::1]", os.uname().nodename]
if (_bound := env.read_str("HEADWORKS_BIND", "127.0.0.1")) not in ("0.0.0.0", "::", ""):  # noqa: S104 - compared
    ALLOWED_HOSTS.append(f"[{_bound}]" if ":" in _bound else _bound)
CSRF_TRUSTED_ORIGINS = env.read_list("HEADWORKS_TRUSTED_ORIGINS")
# X-Forwarded-Proto and -For are believed from HEADWORKS_TRUSTED_PROXIES alone, by the server in controlplane.serve.
HTTPS_ONLY = env.read_bool("HEADWORKS_HTTPS", False)

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "rest_framework",
    "drf_spectacular",
    "controlplane.journal",
    "controlplane.accounts",
    "controlplane.telemetry",
    "controlplane.catalog",
    "controlplane.fleet",
    "controlplane.deployments",
    "controlplane.traffic",
    "controlplane.console",
    "controlplane.api",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "controlplane.urls"
ASGI_APPLICATION = "controlplane.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": False,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.i18n",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
            "builtins": ["django.templatetags.i18n", "django.templatetags.static"],
        },
    }
]


def _database() -> dict[str, object]:
    """DATABASE_URL as psycopg understands it (postgresql://…), split for Django."""
    from psycopg.conninfo import conninfo_to_dict

    parts = conninfo_to_dict(env.read_secret("DATABASE_URL", "postgresql://headworks@127.0.0.1:5432/headworks"))
    known = {
        "NAME": str(parts.pop("dbname", "headworks")),
        "USER": str(parts.pop("user", "")),
        "PASSWORD": str(parts.pop("password", "")),
        "HOST": str(parts.pop("host", "")),
        "PORT": str(parts.pop("port", "")),
    }
    options: dict[str, object] = {"connect_timeout": 5, **parts}
    if env.read_bool("HEADWORKS_DATABASE_POOL", False):
        most = env.read_int("HEADWORKS_DATABASE_POOL_SIZE", 12, low=1)
        # while the database is away a page says so after these seconds; the pool's own patience is half a minute
        options["pool"] = {"min_size": 1, "max_size": most, "timeout": 5.0}
    return {
        "ENGINE": "django.db.backends.postgresql",
        **known,
        "OPTIONS": options,
        "CONN_HEALTH_CHECKS": True,
        "TEST": {"NAME": env.read_str("HEADWORKS_TEST_DATABASE", "headworks_test")},
    }


DATABASES = {"default": _database()}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = ["controlplane.accounts.backends.PasswordBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher"]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "overview"
LOGOUT_REDIRECT_URL = "login"

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
LOCALE_PATHS = [BASE_DIR / "locale"]
USE_I18N = True
USE_TZ = True
TIME_ZONE = "UTC"

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = HOME / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
# Outside DEBUG what `collectstatic` copied at start is served: a changed checkout changes no running console.
WHITENOISE_USE_FINDERS = DEBUG

SESSION_COOKIE_NAME = "headworks_session"
SESSION_COOKIE_AGE = 14 * 24 * 3600
CSRF_COOKIE_NAME = "headworks_csrf"
# with a certificate of its own the console speaks nothing but TLS, whether or not HEADWORKS_HTTPS says so
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS_ONLY or bool(env.read_str("HEADWORKS_TLS_CERT", ""))
SECURE_SSL_REDIRECT = HTTPS_ONLY
SECURE_REDIRECT_EXEMPT = [r"^healthz$"]
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS_ONLY else 0
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "font-src": ["'self'"],
        "connect-src": ["'self'"],
        "form-action": ["'self'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
    }
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "controlplane.api.authentication.BearerTokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["controlplane.api.permissions.RolePermission"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["controlplane.api.parsers.StrictJSONParser"],
    "DEFAULT_METADATA_CLASS": None,  # OPTIONS says nothing that the schema does not say
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "controlplane.api.errors.exception_handler",
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Headworks",
    "DESCRIPTION": (
        "REST interface of the Headworks control plane: what the console does, this does. "
        "Names are addresses, so PUT is declarative: the same again changes nothing. "
        "Lists come in pages: `limit` rows from `cursor` on, with `count`, `next` and `previous`. "
        "An ETag sent as `If-Match` refuses a change (412) when somebody else was faster. "
        "Every error is `{error: {code, message, details}}`."
    ),
    "VERSION": version.VERSION,
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PUBLIC": True,  # the whole schema for everybody: it holds no data
    "SERVE_AUTHENTICATION": [],
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "SCHEMA_PATH_PREFIX": r"/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "ENUM_NAME_OVERRIDES": {
        "StepKindEnum": ["cap_tokens", "divert", "shed"],
        "PlannerPurposeEnum": ["interactive", "offline"],
        "PurposeEnum": "controlplane.fleet.models.Pool.Purpose",
    },
}

REDIS_URL = valkey.url()

# Celery. Why each value is not the default: design decision 1 and docs/adr.
CELERY_BROKER_URL = REDIS_URL.replace("unix://", "redis+socket://")
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_DEFAULT_QUEUE = "control"
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 120,
    "global_keyprefix": f"{keys.NAMESPACE}:celery:",
    "socket_connect_timeout": 5,
    "socket_timeout": 30,
}
CELERY_BEAT_SCHEDULER = "redbeat.RedBeatScheduler"
CELERY_BEAT_MAX_LOOP_INTERVAL = 5
CELERY_REDBEAT_REDIS_URL = REDIS_URL
CELERY_REDBEAT_KEY_PREFIX = f"{keys.NAMESPACE}:beat:"
CELERY_REDBEAT_LOCK_TIMEOUT = 25
CELERY_TIMEZONE = "UTC"

# Headworks
GATEWAY_URL = env.read_str("HEADWORKS_GATEWAY_URL", "http://127.0.0.1:8080")
# Where the console itself reaches the gateway, for the box that tries a model.
GATEWAY_INTERNAL_URL = env.read_str("HEADWORKS_GATEWAY_INTERNAL_URL", GATEWAY_URL)
GATEWAY_CERTIFICATE = env.read_str("HEADWORKS_TLS_CERT", "")  # both ports have the same one; the console trusts it
CONSOLE_URL = env.read_str("HEADWORKS_CONSOLE_URL", "http://127.0.0.1:8000")
JOURNAL_KEEP_DAYS = env.read_int("HEADWORKS_JOURNAL_KEEP_DAYS", 90, low=1)
USAGE_KEEP_DAYS = env.read_int("HEADWORKS_USAGE_KEEP_DAYS", 400, low=1)
TELEMETRY_KEEP_DAYS = env.read_int("HEADWORKS_TELEMETRY_KEEP_DAYS", 30, low=1)

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": env.log_level()},
}
