"""An identity provider of the tests: OpenID Connect logins, and ID-JAG assertions for the authorization servers of others.

Usage: idp.py PORT [JSON options]. It approves every login at once, of the user that is at the browser. GET /mint?sub=X gives an
access token for the gateway under test. GET /log returns its requests; POST /control changes its behaviour.
"""

import base64
import hashlib
import json
import secrets
import sys
import time
from urllib.parse import urlencode

import jwt
import uvicorn
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse
from starlette.routing import Route

PORT = int(sys.argv[1])
BASE = f"http://127.0.0.1:{PORT}"
OPTIONS = {
    "user": "operator",  # who is at the browser
    "lifetime": 3600,  # of ID tokens, in seconds
    "renews": True,  # a refresh gives an ID token too
    "assigned": ["operator", "ann", "bob"],  # to the application
    "jag": {},  # changes to the claims of an assertion
    "kind": "oauth-id-jag+jwt",  # its `typ`
    "down": False,  # the token endpoint fails
    "never": None,  # a scope that nobody gets
    "key": None,  # public key of the client, in PEM; without one it has a secret
}
OPTIONS.update(json.loads(sys.argv[2]) if len(sys.argv) > 2 else {})
KEY = ec.generate_private_key(ec.SECP256R1())
CODES, REFRESH, LOG, SEEN = {}, {}, [], set()
ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"


def signed(claims, kind="JWT"):
    now = int(time.time())
    return jwt.encode({"iss": BASE, "iat": now, "jti": secrets.token_hex(8)} | claims, KEY, "ES256", {"kid": "idp", "typ": kind})


def identity(user, client):
    return signed({"sub": user, "aud": client, "exp": int(time.time()) + OPTIONS["lifetime"]})


async def metadata(request):
    return JSONResponse({
        "issuer": BASE,
        "authorization_endpoint": f"{BASE}/authorize",
        "token_endpoint": f"{BASE}/token",
        "jwks_uri": f"{BASE}/jwks",
        "response_types_supported": ["code"],
        "scopes_supported": ["openid", "offline_access", "email"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["client_secret_post", "private_key_jwt"],
        "authorization_response_iss_parameter_supported": True,
    })


async def jwks(request):
    return JSONResponse({"keys": [json.loads(ECAlgorithm.to_jwk(KEY.public_key())) | {"kid": "idp", "alg": "ES256", "use": "sig"}]})


async def authorize(request):
    asked = dict(request.query_params)
    LOG.append({"authorize": asked})
    if "resource" in asked:
        return JSONResponse({"error": "invalid_target", "error_description": "no resource of this provider"}, status_code=400)
    code = secrets.token_urlsafe(24)
    CODES[code] = asked | {"user": OPTIONS["user"]}
    return RedirectResponse(f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state'], 'iss': BASE})}", status_code=302)


def client(form):
    """The client that proves itself; None without a proof."""
    if not OPTIONS["key"]:
        return "forgefs" if (form.get("client_id"), form.get("client_secret")) == ("forgefs", "idp-secret") else None
    try:
        proof = form["client_assertion"]
        claims = jwt.decode(proof, OPTIONS["key"], ["ES256", "ES384", "RS256", "EdDSA"], audience=BASE)
        if "client_secret" in form or claims["iss"] != claims["sub"] or claims["exp"] > time.time() + 600 or claims["jti"] in SEEN:
            return None
        SEEN.add(claims["jti"])
        LOG.append({"proof": jwt.get_unverified_header(proof)})
        return claims["sub"]
    except (KeyError, jwt.InvalidTokenError) as why:
        LOG.append({"refused": repr(why)})
        return None


def subject(form, name):
    """The user whose token is exchanged."""
    match form.get("subject_token_type", "").rsplit(":", 1)[-1]:
        case "id_token":
            claims = jwt.decode(form["subject_token"], KEY.public_key(), ["ES256"], audience=name, issuer=BASE)
            return claims["sub"]
        case "refresh_token":
            return REFRESH[form["subject_token"]]
    raise KeyError("subject_token_type")


async def token(request):
    form = dict(await request.form())
    LOG.append({"token": {key: form.get(key) for key in ("grant_type", "resource", "audience", "scope", "subject_token_type")}})

    def refuse(error, why, status=400):
        LOG.append({"refused": why})
        return JSONResponse({"error": error, "error_description": why}, status_code=status)

    if OPTIONS["down"]:
        return JSONResponse({"error": "server_error"}, status_code=503)
    name = client(form)
    if name is None:
        return refuse("invalid_client", "the client does not prove itself", 401)
    if form["grant_type"] == EXCHANGE:
        try:
            user = subject(form, name)
        except (KeyError, jwt.InvalidTokenError) as why:
            return refuse("invalid_grant", f"no login: {why}")
        if form.get("requested_token_type") != ID_JAG:
            return refuse("invalid_request", "only assertions are given here")
        if user not in OPTIONS["assigned"]:
            return refuse("access_denied", f"{user} is not assigned to this application")
        if OPTIONS["never"] in form.get("scope", "").split():
            return refuse("invalid_scope", f"{OPTIONS['never']} is given to nobody")
        LOG.append({"vouched": [user, form["audience"], form["resource"]]})
        claims = {"sub": user, "aud": form["audience"], "resource": form["resource"], "client_id": "forgefs-there", "exp": int(time.time()) + 300}
        if form.get("scope"):
            claims["scope"] = form["scope"]
        assertion = signed(claims | OPTIONS["jag"], OPTIONS["kind"])
        return JSONResponse({"access_token": assertion, "issued_token_type": ID_JAG, "token_type": "N_A", "expires_in": 300})
    if "resource" in form:
        return refuse("invalid_target", "no resource of this provider")
    if form["grant_type"] == "authorization_code":
        asked = CODES.pop(form.get("code"), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        if not asked or base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != asked["code_challenge"]:
            return refuse("invalid_grant", "the code is not good")
        user, scopes = asked["user"], asked.get("scope", "")
    elif form["grant_type"] == "refresh_token":
        user, scopes = REFRESH.pop(form.get("refresh_token"), None), "openid offline_access"
        if user is None:
            return refuse("invalid_grant", "unknown refresh token")
    else:
        return refuse("unsupported_grant_type", "unknown grant")
    answer = {"access_token": secrets.token_urlsafe(24), "token_type": "Bearer", "expires_in": 3600, "scope": scopes}
    if "openid" in scopes and (OPTIONS["renews"] or form["grant_type"] == "authorization_code"):
        answer["id_token"] = identity(user, name)
    if "offline_access" in scopes:
        answer["refresh_token"] = secrets.token_urlsafe(24)
        REFRESH[answer["refresh_token"]] = user
    return JSONResponse(answer)


async def mint(request):
    user = request.query_params["sub"]
    claims = {"sub": user, "aud": "https://forge.example.com/mcp", "exp": int(time.time()) + 600, "groups": ["platform"]}
    return PlainTextResponse(signed(claims, "at+jwt"))


async def id_token(request):
    return PlainTextResponse(identity(request.query_params["sub"], "forgefs"))


async def control(request):
    wanted = await request.json()
    if wanted.pop("revoke_all", False):
        REFRESH.clear()
    OPTIONS.update(wanted)
    return JSONResponse({})


async def log(request):
    return JSONResponse(LOG)


routes = [
    Route("/.well-known/openid-configuration", metadata),
    Route("/jwks", jwks),
    Route("/authorize", authorize),
    Route("/token", token, methods=["POST"]),
    Route("/mint", mint),
    Route("/id_token", id_token),
    Route("/control", control, methods=["POST"]),
    Route("/log", log),
]
uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=PORT, log_level="error")
