"""The header's value and the secrets: encodings, more than one header, rotation."""

import base64
import hashlib
import hmac
from collections.abc import Callable
from dataclasses import replace

from tests.providers.vectors.scene import Scene, accepted, case, refused
from tests.providers.vectors.vector import Delivery, Encoding, mac

RULE_1 = "5.2 rule 1"
HEADER = f"{RULE_1}; notes, Extension providers: hex or base64 by configuration"
SECRET = f"{RULE_1}: a shared secret"
ROTATION = "the issue: two secrets while rotating"
SILENT = f"{HEADER}; the documents are silent"
BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

Form = Callable[[Scene, str], str]


def _message(delivery: Delivery) -> bytes:
    in_body = delivery.method in ("POST", "PATCH")
    return delivery.body if in_body else delivery.url.partition("?")[2].encode()


def _given(form: Form) -> Callable[[Scene], Delivery]:
    """A good request with another text in its header: that which `form` makes of its signature."""

    def sent(scene: Scene) -> Delivery:
        good = scene.any()
        return replace(good, signatures=(form(scene, good.signatures[0]),))

    return sent


accepted("signature: hex as documented", "the digest in hex", HEADER, encoding="hex")(Scene.any)
accepted("signature: base64 as documented", "the digest in base64", HEADER, encoding="base64")(Scene.any)


@accepted("signature: hex in capitals", "the right digest: hex has no case", SILENT, encoding="hex")
@_given
def capitals(scene: Scene, text: str) -> str:
    mixed = "".join(scene.random.choice((letter, letter.upper())) for letter in text)
    return scene.random.choice((text.upper(), mixed))


@refused("signature: one character tampered", "another digest, or none", HEADER)
@_given
def tampered(scene: Scene, text: str) -> str:
    letters = "0123456789abcdef" if scene.encoding == "hex" else f"{BASE64}="
    at = scene.random.randrange(len(text))
    other = scene.random.choice([letter for letter in letters if letter != text[at]])
    return text[:at] + other + text[at + 1 :]


@refused(
    "signature: base64 with other spare bits",
    "a changed byte of the signature; no encoder writes it (RFC 4648, 3.5)",
    SILENT,
    encoding="base64",
)
@_given
def spare_bits(scene: Scene, text: str) -> str:
    last = BASE64.index(text[-2])  # its two lowest bits are no part of the digest
    given = text[:-2] + BASE64[last ^ scene.random.randint(1, 3)] + "="
    assert base64.b64decode(given) == base64.b64decode(text)
    return given


WRONG: dict[Encoding, dict[str, Callable[[str], str]]] = {
    "hex": {
        "hex of a shorter digest": lambda text: text[:-2],
        "hex of a longer digest": lambda text: text + "00",
        "hex cut in the middle": lambda text: text[:32],
        "hex with an odd digit": lambda text: text[:-1],
        "hex with a prefix": lambda text: "sha256=" + text,
        "hex with 0x": lambda text: "0x" + text,
        "hex with spaces": lambda text: " ".join(text[at : at + 2] for at in range(0, 64, 2)),
        "hex with a space before": lambda text: " " + text,
        "hex with a line end": lambda text: text + "\n",
        "hex in quotes": lambda text: f'"{text}"',
        "hex with a zero byte": lambda text: text + "\0",
        "hex in wide digits": lambda text: "".join(
            chr(ord(d) + 0xFEE0) if d.isdigit() else d for d in ("0" + text[1:])
        ),
        "empty": lambda text: "",
        "a word": lambda text: "null",
        "zeros": lambda text: "0" * 64,
        "joined by a comma": lambda text: f"{text}, {text}",
        "joined by a comma with a wrong one": lambda text: f"{'0' * 64},{text}",
        "base64 where hex is agreed": lambda text: base64.b64encode(bytes.fromhex(text)).decode(),
        "hex of the hex": lambda text: text.encode().hex(),
        "beyond ASCII": lambda text: "é" + text[1:],
        "a lone surrogate": lambda text: "\udc80" + text[1:],
    },
    "base64": {
        "base64 without its padding": lambda text: text.rstrip("="),
        "base64 with too much padding": lambda text: text + "=",
        "base64 with spaces": lambda text: text[:20] + " " + text[20:],
        "base64 with a line end": lambda text: text + "\n",
        "base64 in two lines": lambda text: text[:22] + "\r\n" + text[22:],
        "base64 cut": lambda text: text[:-4],
        "base64 followed by more": lambda text: text + "AAAA",
        "base64 twice": lambda text: text + text,
        "base64 joined by a comma": lambda text: f"{text},{text}",
        "base64 in capitals": lambda text: text.swapcase(),
        "base64 empty": lambda text: "",
        "hex where base64 is agreed": lambda text: base64.b64decode(text).hex(),
        "base64 of the hex": lambda text: base64.b64encode(base64.b64decode(text).hex().encode()).decode(),
        "base64 beyond ASCII": lambda text: "é" + text[1:],
    },
}

for _encoding, _forms in WRONG.items():
    for _name, _form in _forms.items():

        @refused(
            f"signature: {_name}", f"not the digest in {_encoding}, as agreed", HEADER, encoding=_encoding
        )
        @_given
        def wrong(scene: Scene, text: str, form: Callable[[str], str] = _form) -> str:
            given = form(text)
            assert given != text
            return given


@refused(
    "signature: base64 in the alphabet of addresses",
    "another alphabet than base64's (RFC 4648, 5); the documents are silent",
    SILENT,
    encoding="base64",
)
def urlsafe(scene: Scene) -> Delivery:
    sent = scene.any()
    while not {"+", "/"} & {*sent.signatures[0]}:
        sent = scene.any()
    return replace(sent, signatures=(sent.signatures[0].replace("+", "-").replace("/", "_"),))


refused("signature: header missing", "every request carries it", RULE_1)(
    lambda scene: replace(scene.any(), signatures=())
)


@refused(
    "signature: header twice, both right",
    "no sender writes it, and which one counts is nobody's rule; the documents are silent",
    RULE_1,
)
def both_right(scene: Scene) -> Delivery:
    sent = scene.any()
    return replace(sent, signatures=sent.signatures * 2)


@refused("signature: header twice, one right", "which one counts is nobody's rule", RULE_1)
def one_right(scene: Scene) -> Delivery:
    sent = scene.any()
    wrong = mac(scene.old_secret, b"other", scene.encoding)
    both = scene.random.choice(((wrong, *sent.signatures), (*sent.signatures, wrong), ("", *sent.signatures)))
    return replace(sent, signatures=both)


refused("signature: of another request", "it was made for another request", RULE_1)(
    lambda scene: replace(scene.any(), signatures=scene.any().signatures)
)


def _digested(digest: Callable[[Scene, bytes], bytes]) -> Callable[[Scene], Delivery]:
    """A good request whose header holds another digest of the message."""

    def sent(scene: Scene) -> Delivery:
        good = scene.any()
        made = digest(scene, _message(good))
        text = made.hex() if scene.encoding == "hex" else base64.b64encode(made).decode()
        return replace(good, signatures=(text,))

    return sent


@refused("signature: another digest", "HMAC with SHA-256", RULE_1)
@_digested
def another_digest(scene: Scene, message: bytes) -> bytes:
    name = scene.random.choice(("md5", "sha1", "sha512", "sha3_256"))
    return hmac.digest(scene.secret, message, name)


@refused("signature: a bare hash", "HMAC, not a hash", RULE_1)
@_digested
def bare_hash(scene: Scene, message: bytes) -> bytes:
    return hashlib.sha256(scene.random.choice((b"", scene.secret)) + message).digest()


def _under(scene: Scene, secret: bytes) -> Delivery:
    """A request that is right but for the secret."""
    return replace(scene, secret=secret).any()


def _under_none(scene: Scene) -> Delivery:
    sent = scene.any()
    return replace(sent, signatures=(mac(b"", _message(sent), scene.encoding),))


def _rotating(scene: Scene) -> tuple[bytes, ...]:
    return scene.secret, scene.old_secret


def _with_an_empty_one(scene: Scene) -> tuple[bytes, ...]:
    return scene.random.choice(((scene.secret, b""), (b"", scene.secret)))


@refused("secret: wrong", "signed under another secret", SECRET)
def wrong_secret(scene: Scene) -> Delivery:
    secret = scene.secret
    others = (scene.old_secret, secret[:-1], secret + b"\n", b" " + secret, secret.hex().encode())
    return _under(scene, scene.random.choice(others))


refused("secret: empty, by the sender", "signed under no secret", SECRET)(_under_none)
refused(
    "secret: empty, on both sides",
    "an empty secret is shared with everybody: a setting that was forgotten must not open the door",
    SECRET,
    secrets=lambda scene: scene.random.choice(((b"",), _with_an_empty_one(scene))),
)(_under_none)
accepted(
    "secret: an empty one beside the right one",
    "signed under the secret in use",
    ROTATION,
    secrets=_with_an_empty_one,
)(Scene.any)
refused("secret: none known", "without a secret nothing can be verified", SECRET, secrets=lambda scene: ())(
    Scene.any
)
accepted("secret: the new one while rotating", "both count while rotating", ROTATION, secrets=_rotating)(
    Scene.any
)
accepted("secret: the old one while rotating", "both count while rotating", ROTATION, secrets=_rotating)(
    lambda scene: _under(scene, scene.old_secret)
)
refused("secret: the old one after rotating", "it counts no longer", ROTATION)(
    lambda scene: _under(scene, scene.old_secret)
)
refused("secret: a third one while rotating", "signed under neither", ROTATION, secrets=_rotating)(
    lambda scene: _under(scene, scene.webhook_secret)
)
refused("secret: the webhooks' for provisioning", "webhooks have a secret of their own", "5.2 rule 3")(
    lambda scene: _under(scene, scene.webhook_secret)
)


@case(
    "secret: one nonce under both while rotating",
    ("accepted", "refused"),
    "a nonce is used up whichever secret signed it",
    "2.7: unique per request",
    secrets=_rotating,
)
def nonce_under_both(scene: Scene) -> tuple[Delivery, ...]:
    first = scene.post()
    return first, replace(first, signatures=(mac(scene.old_secret, first.body, scene.encoding),))


@refused("secret: provisioning's for webhooks", "webhooks have a secret of their own", "5.2 rule 3")
def provisionings_for_webhooks(scene: Scene) -> Delivery:
    sent = scene.webhook()
    return replace(sent, signatures=(mac(scene.secret, sent.body, scene.encoding),))
