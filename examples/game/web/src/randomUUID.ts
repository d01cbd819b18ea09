// Browsers give this function to pages on https and localhost only, and `agents` needs it: without
// it the page would not work at http://192.168.1.5:8787, which is where a phone finds it.
if (!crypto.randomUUID) {
  crypto.randomUUID = () => {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    bytes[6] = (bytes[6]! & 0x0f) | 0x40;
    bytes[8] = (bytes[8]! & 0x3f) | 0x80;
    const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
    const parts = [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20)];
    return `${parts.join("-")}-${hex.slice(20)}` as ReturnType<Crypto["randomUUID"]>;
  };
}

export {};
