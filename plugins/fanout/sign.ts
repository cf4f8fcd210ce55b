// Signatures: HMAC-SHA256 over "id.timestamp.body", in base64, as the Standard Webhooks convention has it. A secret may be written
// as "whsec_" and base64; otherwise its text is the key.

export function signer(secret: (name: string) => string): (name: string, text: string) => Promise<string> {
  const keys = new Map<string, Promise<CryptoKey>>();
  const encoder = new TextEncoder();
  return async (name, text) => {
    let key = keys.get(name);
    if (key === undefined) {
      key = crypto.subtle.importKey("raw", bytes(secret(name)) as BufferSource, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
      keys.set(name, key);
    }
    const signature = new Uint8Array(await crypto.subtle.sign("HMAC", await key, encoder.encode(text)));
    return btoa(String.fromCharCode(...signature));
  };
}

function bytes(secret: string): Uint8Array {
  if (!secret.startsWith("whsec_")) return new TextEncoder().encode(secret);
  return Uint8Array.from(atob(secret.slice("whsec_".length)), (letter) => letter.charCodeAt(0));
}
