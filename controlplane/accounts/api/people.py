"""People and their tokens in REST; all of it but `me` is for administrators."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.accounts import roles, selectors
from controlplane.accounts.models import ApiToken, Role, User
from controlplane.accounts.services import tokens, users
from controlplane.accounts.services.users import UserWish
from controlplane.api import permissions, schema
from controlplane.api.serializers import PageQuery, StrictSerializer, Text, Truth, Words
from controlplane.api.views import ApiView, without_page

ADMINISTRATORS: permissions.Roles = dict.fromkeys(("GET", "PUT", "POST", "DELETE"), "administrator")


class UserSerializer(serializers.Serializer[User]):
    """A person who uses the console."""

    username = serializers.CharField()
    role = serializers.ChoiceField(Role.choices)
    email = serializers.CharField()
    is_active = serializers.BooleanField()
    last_login = serializers.DateTimeField(allow_null=True)
    date_joined = serializers.DateTimeField()
    version = serializers.IntegerField(help_text="The number in the ETag.")


class UserBody(StrictSerializer):
    """What a user shall be; what is left out gets its default."""

    answer = UserSerializer

    role = Words(Role.choices, default=Role.VIEWER.value)
    email = Text(default="", allow_blank=True, max_length=254)
    is_active = Truth(default=True)
    password = Text(
        default=None, allow_null=True, max_length=200, trim_whitespace=False, write_only=True,
        help_text="A new user needs one; null keeps the stored one.",
    )  # fmt: skip


class UserQuery(PageQuery):
    """Filters of users."""

    role = Words(Role.choices, required=False)
    is_active = serializers.BooleanField(required=False)
    search = serializers.CharField(required=False, max_length=100)


class TokenSerializer(serializers.Serializer[ApiToken]):
    """A bearer token of REST; its text is not kept."""

    id = serializers.IntegerField()
    user = serializers.CharField(source="user.username")
    name = serializers.CharField()
    prefix = serializers.CharField(help_text="How it begins, to recognise it.")
    role = serializers.ChoiceField(Role.choices)
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(allow_null=True, help_text="Within a minute.")
    revoked_at = serializers.DateTimeField(allow_null=True)


class NewTokenSerializer(serializers.Serializer[Any]):
    """A token that was just made, with its text, which is shown this once."""

    token = TokenSerializer()
    secret = serializers.CharField()


class TokenBody(StrictSerializer):
    """A token to be made."""

    user = Text(max_length=150)
    name = Text(max_length=100)
    role = Words(Role.choices, default=None, allow_null=True, help_text="By default the user's.")
    expires_at = serializers.DateTimeField(default=None, allow_null=True)


class TokenQuery(PageQuery):
    """Filters of tokens."""

    user = serializers.CharField(required=False, max_length=150)


class PasswordBody(StrictSerializer):
    """One's own password."""

    current = Text(max_length=200, trim_whitespace=False, write_only=True)
    new = Text(max_length=200, trim_whitespace=False, write_only=True)


class MeSerializer(serializers.Serializer[Any]):
    """Who asks, and what they may do."""

    username = serializers.CharField()
    role = serializers.ChoiceField(Role.choices, help_text="The lesser one of the user's and the token's.")
    token = serializers.CharField(allow_null=True, help_text="Name of the token that was sent.")


class MeView(ApiView):
    """Who asks."""

    roles = permissions.READ

    @schema.reads("get_me", MeSerializer, tagged=False)
    def get(self, request: Request) -> Response:
        """Reads who asks, and which role they have here."""
        self.query(StrictSerializer)
        token = request.auth if isinstance(request.auth, ApiToken) else None
        shown = {
            "username": request.user.get_username(),
            "role": roles.effective_role(request),
            "token": token.name if token else None,
        }
        return Response(MeSerializer(shown).data)


class MyPasswordView(ApiView):
    """One's own password."""

    roles = {"POST": "viewer"}

    @schema.acts("change_my_password", None, PasswordBody, 204, conditional=False)
    def post(self, request: Request) -> Response:
        """Gives oneself a new password."""
        fields = self.body(PasswordBody)
        users.change_own_password(actor=roles.acting(request), username=request.user.get_username(), **fields)
        return Response(status=204)


class UsersView(ApiView):
    """All users."""

    roles = ADMINISTRATORS

    @schema.lists("list_users", UserSerializer, UserQuery)
    def get(self, request: Request) -> Response:
        """Lists users by name."""
        query = self.query(UserQuery)
        return self.page(selectors.users(**without_page(query)), UserSerializer, order=("username",), query=query)


class UserView(ApiView):
    """One user."""

    roles = ADMINISTRATORS

    @schema.reads("get_user", UserSerializer)
    def get(self, request: Request, username: str) -> Response:
        """Reads a user."""
        return self._answer(selectors.user(username))

    @schema.puts("put_user", UserBody, UserSerializer)
    def put(self, request: Request, username: str) -> Response:
        """Makes a user be as given; the same again changes nothing. One active administrator is always left."""
        wish, version = UserWish(**self.body(UserBody)), self.expected_version()
        done = users.apply(actor=roles.acting(request), username=username, wish=wish, expected_version=version)
        return self._answer(done.row, 201 if done.created else 200, done.changed)

    @schema.deletes("delete_user")
    def delete(self, request: Request, username: str) -> Response:
        """Removes a user with their tokens."""
        users.delete(actor=roles.acting(request), username=username, expected_version=self.expected_version())
        return Response(status=204)

    def _answer(self, row: User, status: int = 200, changed: bool | None = None) -> Response:
        return self.row(UserSerializer(row).data, version=row.version, status=status, changed=changed)


class TokensView(ApiView):
    """All tokens."""

    roles = ADMINISTRATORS

    @schema.lists("list_tokens", TokenSerializer, TokenQuery)
    def get(self, request: Request) -> Response:
        """Lists tokens, the revoked ones too, oldest first."""
        query = self.query(TokenQuery)
        return self.page(selectors.tokens(**without_page(query)), TokenSerializer, order=("id",), query=query)

    @schema.acts("create_token", NewTokenSerializer, TokenBody, 201, conditional=False)
    def post(self, request: Request) -> Response:
        """Makes a token that acts as a user. Its text is in this answer and never again."""
        fields = self.body(TokenBody)
        token, secret = tokens.create(actor=roles.acting(request), username=fields.pop("user"), **fields)
        return Response(NewTokenSerializer({"token": token, "secret": secret}).data, status=201)


class TokenView(ApiView):
    """One token."""

    roles = ADMINISTRATORS

    @schema.reads("get_token", TokenSerializer)
    def get(self, request: Request, id: int) -> Response:
        """Reads a token."""
        return self._answer(selectors.token(id))

    @schema.deletes("revoke_token", 200, TokenSerializer)
    def delete(self, request: Request, id: int) -> Response:
        """Ends a token for ever; it stays in the list as revoked."""
        version = self.expected_version()
        return self._answer(tokens.revoke(actor=roles.acting(request), token_id=id, expected_version=version))

    def _answer(self, row: ApiToken) -> Response:
        return self.row(TokenSerializer(row).data, version=tokens.version(row))
