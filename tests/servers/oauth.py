"""An authorization server of the tests, and an MCP server of the real Python SDK that accepts its tokens.

Usage: oauth.py PORT [JSON options]. It approves every login at once, of the user that is at the browser. GET /log returns its requests; POST /control
changes its behaviour. Both servers are one process on one port: http://127.0.0.1:PORT/mcp or /sse.
"""

import asyncio
import base64
import hashlib
import json
import secrets
import sys
import time
from urllib.parse import parse_qs, urlencode

import jwt
import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer
from starlette.responses import JSONResponse, RedirectResponse

PORT = int(sys.argv[1])
BASE = f"http://127.0.0.1:{PORT}"
OPTIONS = {
    "path": "/mcp",  # or /sse, which is then of the transport of 2024-11-05
    "lifetime": 3600,  # of access tokens, in seconds; 0 leaves `expires_in` out
    "metadata": {},  # changes to the authorization server's metadata; null removes a key
    "iss": BASE,  # in the authorization response
    "redirects": "http",  # beginning of the addresses that clients may register
    "deny": False,
    "grant": None,  # scopes in place of those that are asked for
    "user": "operator",  # who is at the browser
    "odd": {},  # what an exchange answers beside
    "same": False,  # a token is exchanged for itself
    "down": False,  # the token endpoint fails
    "idp": None,  # identity provider whose assertions are taken
    "key": None,  # public key of the client `keyed`, in PEM
    "wants": None,  # scopes that a message without a token is told to bring; a GET is told nothing of them
}
OPTIONS.update(json.loads(sys.argv[2]) if len(sys.argv) > 2 else {})
RESOURCE = BASE + OPTIONS["path"]
CLIENTS = {
    "by-hand": {"secret": "by-hand-secret"},
    "program": {"secret": "program-secret"},
    "forgefs-there": {"secret": "there-secret"},
    "keyed": {"secret": None},
}
CODES, ACCESS, REFRESH, LOG, SEEN = {}, {}, {}, [], set()


class Verifier:
    async def verify_token(self, token):
        held = ACCESS.get(token)
        if not held or (held["expires"] and held["expires"] < time.time()):
            return None
        return AccessToken(
            token=token, client_id=f"{held['user']}/{held['client']}", scopes=held["scopes"], expires_at=None, resource=held["resource"]
        )


app = MCPServer(
    "protected",
    token_verifier=Verifier(),
    auth=AuthSettings(issuer_url=BASE, resource_server_url=RESOURCE, required_scopes=["mcp"], validate_token_resource=True),
    log_level="ERROR",
)


@app.tool()
def echo(message: str) -> str:
    """Gives a message back."""
    return f"Echo: {message}"


ISSUES = {"operator": ["#1"], "ann": ["#7 of ann"], "bob": ["#8 of bob"]}


@app.tool()
def issues() -> list[str]:
    """Lists the user's own issues."""
    user = get_access_token().client_id.split("/")[0]
    LOG.append({"issues": user})
    return ISSUES[user]


@app.tool()
def admin() -> str:
    """Needs the scope `admin:all`."""
    return "done"


@app.custom_route("/.well-known/oauth-authorization-server", methods=["GET"])
async def metadata(request):
    document = {
        "issuer": BASE,
        "authorization_endpoint": f"{BASE}/authorize",
        "token_endpoint": f"{BASE}/token",
        "registration_endpoint": f"{BASE}/register",
        "revocation_endpoint": f"{BASE}/revoke",
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none", "client_secret_post"],
        "authorization_response_iss_parameter_supported": True,
    }
    document.update(OPTIONS["metadata"])
    return JSONResponse({key: value for key, value in document.items() if value is not None})


@app.custom_route("/register", methods=["POST"])
async def register(request):
    asked = await request.json()
    if not all(place.startswith(OPTIONS["redirects"]) for place in asked["redirect_uris"]):
        return JSONResponse({"error": "invalid_redirect_uri"}, status_code=400)
    client = f"client-{secrets.token_hex(8)}"
    CLIENTS[client] = {"secret": None, "redirects": asked["redirect_uris"]}
    LOG.append({"register": asked})
    return JSONResponse({"client_id": client, "redirect_uris": asked["redirect_uris"]}, status_code=201)


@app.custom_route("/authorize", methods=["GET"])
async def authorize(request):
    asked = dict(request.query_params)
    LOG.append({"authorize": asked})
    client = CLIENTS.get(asked["client_id"], {} if asked["client_id"].startswith("https://") else None)
    known = client is not None and asked["redirect_uri"] in client.get("redirects", [asked["redirect_uri"]])
    if not known or asked.get("code_challenge_method") != "S256" or asked.get("response_type") != "code":
        return JSONResponse({"error": "invalid_request"}, status_code=400)
    if OPTIONS["deny"]:
        answer = {"error": "access_denied", "error_description": "the user said no"}
    else:
        code = secrets.token_urlsafe(24)
        CODES[code] = asked | {"user": OPTIONS["user"]}
        answer = {"code": code}
    answer |= {"state": asked["state"], "iss": OPTIONS["iss"]}
    return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(answer)}", status_code=302)


def issue(client, scopes, resource, user, family=None):
    family = family or secrets.token_hex(8)
    access, refresh = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    lifetime = OPTIONS["lifetime"]
    expires = time.time() + lifetime if lifetime else None
    held = {"client": client, "user": user, "scopes": scopes, "resource": resource, "family": family}
    ACCESS[access] = held | {"expires": expires}
    REFRESH[refresh] = held | {"used": False}
    answer = {"access_token": access, "token_type": "Bearer", "scope": " ".join(scopes)}
    return answer | ({"expires_in": lifetime} if lifetime else {}), refresh


def revoke_family(family):
    for tokens in (ACCESS, REFRESH):
        for token in [token for token, held in tokens.items() if held["family"] == family]:
            del tokens[token]


@app.custom_route("/token", methods=["POST"])
async def token(request):
    form = {key: values[0] for key, values in parse_qs((await request.body()).decode()).items()}
    asked = {key: form.get(key) for key in ("grant_type", "resource", "scope")}
    LOG.append({"token": asked | ({"audience": form["audience"]} if "audience" in form else {})})

    def refuse(error, why):
        LOG.append({"refused": why})
        return JSONResponse({"error": error, "error_description": why}, status_code=400)

    if OPTIONS["down"]:
        return JSONResponse({"error": "server_error"}, status_code=503)
    client = form.get("client_id", "")
    known = CLIENTS.get(client, {} if client.startswith("https://") else None)
    if known is None or (known.get("secret") and known["secret"] != form.get("client_secret")):
        return refuse("invalid_client", "unknown client or wrong secret")
    if client == "keyed":
        try:
            claims = jwt.decode(form["client_assertion"], OPTIONS["key"], ["ES256", "ES384", "RS256", "EdDSA"], audience=[BASE, f"{BASE}/token"])
            assert claims["iss"] == claims["sub"] == client and claims["jti"] not in SEEN and "client_secret" not in form
            SEEN.add(claims["jti"])
            LOG.append({"proof": jwt.get_unverified_header(form["client_assertion"])})
        except (KeyError, AssertionError, jwt.InvalidTokenError) as why:
            return refuse("invalid_client", f"no proof of the key: {why!r}")
    if form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer":
        try:
            assert jwt.get_unverified_header(form["assertion"])["typ"] == "oauth-id-jag+jwt", "typ"
            keys = await asyncio.to_thread(lambda: jwt.PyJWKClient(f"{OPTIONS['idp']}/jwks").get_signing_key_from_jwt(form["assertion"]))
            claims = jwt.decode(form["assertion"], keys.key, ["ES256"], audience=BASE, issuer=OPTIONS["idp"])
            assert claims["client_id"] == client and claims["resource"] == RESOURCE and claims["jti"] not in SEEN, "not for this server"
            SEEN.add(claims["jti"])
        except (KeyError, AssertionError, jwt.InvalidTokenError) as why:
            return refuse("invalid_grant", f"the assertion is not good: {why!r}")
        if claims["sub"] not in ISSUES:
            return refuse("access_denied", "this user has no account there")
        return JSONResponse(issue(client, claims.get("scope", "mcp").split(), RESOURCE, claims["sub"])[0])
    if form.get("resource") != RESOURCE:
        return refuse("invalid_target", "wrong resource")
    scopes = OPTIONS["grant"]
    match form["grant_type"]:
        case "authorization_code":
            asked = CODES.pop(form.get("code"), None)
            if not asked or asked["client_id"] != client or asked["redirect_uri"] != form.get("redirect_uri"):
                return refuse("invalid_grant", "the code is not good")
            digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
            if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != asked["code_challenge"]:
                return refuse("invalid_grant", "PKCE failed")
            answer, refresh = issue(client, scopes or asked.get("scope", "").split(), asked.get("resource"), asked["user"])
            return JSONResponse(answer | {"refresh_token": refresh})
        case "refresh_token":
            held = REFRESH.get(form.get("refresh_token"))
            if not held or held["client"] != client:
                return refuse("invalid_grant", "unknown refresh token")
            if held["used"]:
                # The token is stolen: it must not be trusted any more.
                revoke_family(held["family"])
                return refuse("invalid_grant", "the refresh token was used twice")
            held["used"] = True
            answer, refresh = issue(client, held["scopes"], held["resource"], held["user"], held["family"])
            return JSONResponse(answer | {"refresh_token": refresh})
        case "client_credentials":
            return JSONResponse(issue(client, scopes or form.get("scope", "mcp").split(), form["resource"], "operator")[0])
        case "urn:ietf:params:oauth:grant-type:token-exchange":
            body = form["subject_token"].split(".")[1]
            claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
            LOG.append({"exchanged": claims["sub"]})
            if claims["sub"] not in ISSUES:
                return refuse("invalid_target", "this user has no account there")
            answer, _ = issue(client, ["mcp"], form["resource"], claims["sub"])
            same = {"access_token": form["subject_token"]} if OPTIONS["same"] else {}
            return JSONResponse(answer | {"issued_token_type": "urn:ietf:params:oauth:token-type:access_token"} | same | OPTIONS["odd"])
    return refuse("unsupported_grant_type", "unknown grant")


@app.custom_route("/revoke", methods=["POST"])
async def revoke(request):
    form = {key: values[0] for key, values in parse_qs((await request.body()).decode()).items()}
    held = REFRESH.get(form["token"]) or ACCESS.get(form["token"])
    LOG.append({"revoke": bool(held)})
    if held:
        revoke_family(held["family"])
    return JSONResponse({})


@app.custom_route("/control", methods=["POST"])
async def control(request):
    wanted = await request.json()
    if wanted.pop("revoke_access", False):
        ACCESS.clear()
    if wanted.pop("revoke_all", False):
        ACCESS.clear()
        REFRESH.clear()
    OPTIONS.update(wanted)
    return JSONResponse({})


@app.custom_route("/log", methods=["GET"])
async def log(request):
    return JSONResponse(LOG)


class Scopes:
    """Requires `admin:all` for the tool `admin`, like a server with finer scopes."""

    def __init__(self, inner):
        self.inner = inner

    async def __call__(self, scope, receive, send):
        is_message = scope["type"] == "http" and scope["path"].startswith(("/mcp", "/messages"))
        if not is_message or scope["method"] != "POST":
            return await self.inner(scope, receive, send)
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        headers = dict(scope["headers"])
        held = ACCESS.get(headers.get(b"authorization", b"").decode().removeprefix("Bearer "))
        if not held and OPTIONS["wants"]:
            response = JSONResponse({}, status_code=401, headers={"WWW-Authenticate": f'Bearer scope="{OPTIONS["wants"]}"'})
            return await response(scope, receive, send)
        call = json.loads(body or b"{}")
        wants = call.get("method") == "tools/call" and call["params"]["name"] == "admin"
        if wants and held and "admin:all" not in held["scopes"]:
            challenge = f'Bearer error="insufficient_scope", scope="admin:all", resource_metadata="{BASE}/.well-known/oauth-protected-resource/mcp"'
            response = JSONResponse({"error": "insufficient_scope"}, status_code=403, headers={"WWW-Authenticate": challenge})
            return await response(scope, receive, send)
        sent = False

        async def replay():
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.inner(scope, replay, send)


served = Scopes(app.streamable_http_app() if OPTIONS["path"] == "/mcp" else app.sse_app())
uvicorn.run(served, host="127.0.0.1", port=PORT, log_level="error")
