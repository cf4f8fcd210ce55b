// TextEncoder and TextDecoder for UTF-8. The engine has neither, but it has parts that do the work in native code: a loop over
// ten million bytes in JavaScript would take seconds.

export class TextEncoder {
  encoding = "utf-8";

  encode(text = "") {
    const whole = String(text).toWellFormed();
    // Each character of `bytes` is one byte.
    const bytes = /[^\x00-\x7f]/.test(whole) ? unescape(encodeURIComponent(whole)) : whole;
    return Uint8Array.fromBase64(btoa(bytes));
  }
}

export class TextDecoder {
  encoding = "utf-8";

  constructor(label = "utf-8", { fatal = false, ignoreBOM = false } = {}) {
    if (!/^\s*(utf-?8|unicode-1-1-utf-8)\s*$/i.test(label)) throw new RangeError(`TextDecoder knows utf-8, not ${label}`);
    this.fatal = fatal;
    this.ignoreBOM = ignoreBOM;
  }

  decode(input = new Uint8Array()) {
    const view = ArrayBuffer.isView(input)
      ? new Uint8Array(input.buffer, input.byteOffset, input.byteLength)
      : new Uint8Array(input);
    const bytes = atob(view.toBase64());
    let text = bytes;
    if (/[\x80-\xff]/.test(bytes)) {
      try {
        text = decodeURIComponent(escape(bytes));
      } catch {
        if (this.fatal) throw new TypeError("it is not valid UTF-8");
        text = lossy(view);
      }
    }
    return !this.ignoreBOM && text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
  }
}

/** UTF-8 with U+FFFD in place of what is none: slow, and rarely needed. */
function lossy(bytes) {
  let text = "";
  for (let i = 0; i < bytes.length; ) {
    const first = bytes[i++];
    if (first < 0x80) {
      text += String.fromCharCode(first);
      continue;
    }
    const more = first >= 0xc2 && first <= 0xdf ? 1 : first >= 0xe0 && first <= 0xef ? 2 : first >= 0xf0 && first <= 0xf4 ? 3 : 0;
    let code = more === 0 ? -1 : first & (0x3f >> more);
    for (let k = 0; k < more && code >= 0; k++) {
      const next = bytes[i];
      // Overlong forms, surrogates and what lies beyond Unicode show in the second byte.
      const low = k > 0 ? 0x80 : first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80;
      const high = k > 0 ? 0xbf : first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf;
      if (next >= low && next <= high) {
        code = (code << 6) | (next & 0x3f);
        i += 1;
      } else {
        code = -1;
      }
    }
    text += code < 0 ? "\ufffd" : String.fromCodePoint(code);
  }
  return text;
}
