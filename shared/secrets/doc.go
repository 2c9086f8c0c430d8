// Package secrets protects and generates secrets: values sealed at rest with the service's key
// (Box), and the credentials that it issues (API keys, login tokens).
//
// A sealed value is the text "v1." + key id + "." + base64url(nonce + AES-256-GCM). The associated
// data is the value's location, so a copy at another location cannot be opened.
//
// An API key is "ak_" + the 26 characters of its id + "_" + a secret of 32 characters + a CRC-32 of
// 6 characters; the last two are in base62. The secret has 190 bits. The checksum detects typing
// errors without a database query. The database stores only the SHA-256.
package secrets
