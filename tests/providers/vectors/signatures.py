"""The header's value and the secrets: encodings, more than one header, rotation."""

import base64
import hashlib
import hmac
from collections.abc import Callable
from dataclasses import replace

from tests.providers.vectors.scene import CASES, Scene, case
from tests.providers.vectors.vector import Delivery, Encoding, Vector, mac

HEADER = "5.2 rule 1; notes, Extension providers: hex or base64 by configuration"
SECRET = "5.2 rule 1: a shared secret"
ROTATION = "the issue: two secrets while rotating"
SILENT = f"{HEADER}; the documents are silent"


def _message(delivery: Delivery) -> bytes:
    in_body = delivery.method in ("POST", "PATCH")
    return delivery.body if in_body else delivery.url.partition("?")[2].encode()


def _signed(scene: Scene, encoding: Encoding) -> tuple[Delivery, str]:
    """A good request, and its signature in `encoding`."""
    sent = replace(scene, encoding=encoding).any()
    return sent, sent.signatures[0]


@case("signature: hex as documented")
def good_hex(scene: Scene) -> Vector:
    sent, _ = _signed(scene, "hex")
    return scene.one(sent, "accepted", "the digest in hex", HEADER, encoding="hex")


@case("signature: base64 as documented")
def good_base64(scene: Scene) -> Vector:
    sent, _ = _signed(scene, "base64")
    return scene.one(sent, "accepted", "the digest in base64", HEADER, encoding="base64")


@case("signature: hex in capitals")
def capitals(scene: Scene) -> Vector:
    sent, text = _signed(scene, "hex")
    mixed = "".join(scene.random.choice((letter, letter.upper())) for letter in text)
    given = scene.random.choice((text.upper(), mixed))
    reason = "the right digest: hex has no case"
    return scene.one(replace(sent, signatures=(given,)), "accepted", reason, SILENT, encoding="hex")


@case("signature: one character tampered")
def tampered(scene: Scene) -> Vector:
    encoding: Encoding = scene.random.choice(("hex", "base64"))
    sent, text = _signed(scene, encoding)
    letters = (
        "0123456789abcdef"
        if encoding == "hex"
        else "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123+/="
    )
    at = scene.random.randrange(len(text))
    other = scene.random.choice([letter for letter in letters if letter != text[at]])
    given = text[:at] + other + text[at + 1 :]
    return scene.one(
        replace(sent, signatures=(given,)), "refused", "another digest, or none", HEADER, encoding=encoding
    )


@case("signature: base64 with other spare bits")
def spare_bits(scene: Scene) -> Vector:
    sent, text = _signed(scene, "base64")
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    last = letters.index(text[-2])  # its two lowest bits are no part of the digest
    given = text[:-2] + letters[last ^ scene.random.randint(1, 3)] + "="
    assert base64.b64decode(given) == base64.b64decode(text)
    reason = "a changed byte of the signature; no encoder writes it (RFC 4648, 3.5)"
    return scene.one(replace(sent, signatures=(given,)), "refused", reason, SILENT, encoding="base64")


Form = Callable[[str], str]

WRONG_HEX: dict[str, Form] = {
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
}
WRONG_BASE64: dict[str, Form] = {
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
}


def _wrong(encoding: Encoding, form: Form) -> Callable[[Scene], Vector]:
    def play(scene: Scene) -> Vector:
        sent, text = _signed(scene, encoding)
        given = form(text)
        assert given != text
        reason = f"not the digest in {encoding}, as agreed"
        return scene.one(replace(sent, signatures=(given,)), "refused", reason, HEADER, encoding=encoding)

    return play


for _name, _form in WRONG_HEX.items():
    CASES[f"signature: {_name}"] = _wrong("hex", _form)
for _name, _form in WRONG_BASE64.items():
    CASES[f"signature: {_name}"] = _wrong("base64", _form)


@case("signature: base64 in the alphabet of addresses")
def urlsafe(scene: Scene) -> Vector:
    while True:
        sent, text = _signed(scene, "base64")
        if "+" in text or "/" in text:
            break
    given = text.replace("+", "-").replace("/", "_")
    reason = "another alphabet than base64's (RFC 4648, 5); the documents are silent"
    return scene.one(replace(sent, signatures=(given,)), "refused", reason, SILENT, encoding="base64")


@case("signature: header missing")
def no_header(scene: Scene) -> Vector:
    return scene.one(replace(scene.any(), signatures=()), "refused", "every request carries it", "5.2 rule 1")


@case("signature: header twice, both right")
def both_right(scene: Scene) -> Vector:
    sent = scene.any()
    reason = "no sender writes it, and which one counts is nobody's rule; the documents are silent"
    return scene.one(replace(sent, signatures=sent.signatures * 2), "refused", reason, "5.2 rule 1")


@case("signature: header twice, one right")
def one_right(scene: Scene) -> Vector:
    sent = scene.any()
    wrong = mac(scene.old_secret, b"other", scene.encoding)
    both = scene.random.choice(((wrong, *sent.signatures), (*sent.signatures, wrong), ("", *sent.signatures)))
    return scene.one(
        replace(sent, signatures=both), "refused", "which one counts is nobody's rule", "5.2 rule 1"
    )


@case("signature: of another request")
def of_another(scene: Scene) -> Vector:
    sent = replace(scene.any(), signatures=scene.any().signatures)
    return scene.one(sent, "refused", "it was made for another request", "5.2 rule 1")


@case("signature: another digest")
def another_digest(scene: Scene) -> Vector:
    sent = scene.any()
    digest = hmac.new(
        scene.secret, _message(sent), scene.random.choice(("md5", "sha1", "sha512", "sha3_256"))
    )
    text = digest.hexdigest() if scene.encoding == "hex" else base64.b64encode(digest.digest()).decode()
    return scene.one(replace(sent, signatures=(text,)), "refused", "HMAC with SHA-256", "5.2 rule 1")


@case("signature: a bare hash")
def bare_hash(scene: Scene) -> Vector:
    sent = scene.any()
    prefix = scene.random.choice((b"", scene.secret))
    digest = hashlib.sha256(prefix + _message(sent)).digest()
    text = digest.hex() if scene.encoding == "hex" else base64.b64encode(digest).decode()
    return scene.one(replace(sent, signatures=(text,)), "refused", "HMAC, not a hash", "5.2 rule 1")


def _under(scene: Scene, secret: bytes) -> Delivery:
    """A request that is right but for the secret."""
    return replace(scene, secret=secret).any()


@case("secret: wrong")
def wrong_secret(scene: Scene) -> Vector:
    other = scene.random.choice(
        (
            scene.old_secret,
            scene.secret[:-1],
            scene.secret + b"\n",
            b" " + scene.secret,
            scene.secret.hex().encode(),
        )
    )
    return scene.one(_under(scene, other), "refused", "signed under another secret", SECRET)


@case("secret: empty, by the sender")
def empty_secret(scene: Scene) -> Vector:
    sent = scene.any()
    text = mac(b"", _message(sent), scene.encoding)
    return scene.one(replace(sent, signatures=(text,)), "refused", "signed under no secret", SECRET)


@case("secret: empty, on both sides")
def empty_on_both(scene: Scene) -> Vector:
    sent = scene.any()
    text = mac(b"", _message(sent), scene.encoding)
    secrets = scene.random.choice(((b"",), (scene.secret, b""), (b"", scene.secret)))
    reason = "an empty secret is shared with everybody: a setting that was forgotten must not open the door"
    return scene.one(replace(sent, signatures=(text,)), "refused", reason, SECRET, secrets=secrets)


@case("secret: an empty one beside the right one")
def empty_beside(scene: Scene) -> Vector:
    secrets = scene.random.choice(((scene.secret, b""), (b"", scene.secret)))
    return scene.one(scene.any(), "accepted", "signed under the secret in use", ROTATION, secrets=secrets)


@case("secret: none known")
def no_secret(scene: Scene) -> Vector:
    return scene.one(scene.any(), "refused", "without a secret nothing can be verified", SECRET, secrets=())


@case("secret: the new one while rotating")
def new_while_rotating(scene: Scene) -> Vector:
    secrets = (scene.secret, scene.old_secret)
    return scene.one(
        _under(scene, scene.secret), "accepted", "both count while rotating", ROTATION, secrets=secrets
    )


@case("secret: the old one while rotating")
def old_while_rotating(scene: Scene) -> Vector:
    secrets = (scene.secret, scene.old_secret)
    sent = _under(scene, scene.old_secret)
    return scene.one(sent, "accepted", "both count while rotating", ROTATION, secrets=secrets)


@case("secret: the old one after rotating")
def old_after_rotating(scene: Scene) -> Vector:
    return scene.one(_under(scene, scene.old_secret), "refused", "it counts no longer", ROTATION)


@case("secret: a third one while rotating")
def third_while_rotating(scene: Scene) -> Vector:
    secrets = (scene.secret, scene.old_secret)
    sent = _under(scene, scene.webhook_secret)
    return scene.one(sent, "refused", "signed under neither", ROTATION, secrets=secrets)


@case("secret: one nonce under both while rotating")
def nonce_under_both(scene: Scene) -> Vector:
    first = scene.post()
    text = mac(scene.old_secret, first.body, scene.encoding)
    second = replace(first, signatures=(text,))
    reason = "a nonce is used up whichever secret signed it"
    return scene.several(
        (first, second),
        ("accepted", "refused"),
        reason,
        "2.7: unique per request",
        secrets=(scene.secret, scene.old_secret),
    )


@case("secret: the webhooks' for provisioning")
def webhooks_for_provisioning(scene: Scene) -> Vector:
    sent = _under(scene, scene.webhook_secret)
    return scene.one(sent, "refused", "webhooks have a secret of their own", "5.2 rule 3")


@case("secret: provisioning's for webhooks")
def provisionings_for_webhooks(scene: Scene) -> Vector:
    sent = scene.webhook()
    text = mac(scene.secret, sent.body, scene.encoding)
    return scene.one(
        replace(sent, signatures=(text,)), "refused", "webhooks have a secret of their own", "5.2 rule 3"
    )
