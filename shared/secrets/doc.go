// Package secrets keeps and makes what must stay secret: values sealed at rest under the
// service's own key (Box), and the credentials it hands out (API keys, login tokens).
//
// A sealed value is text, "v1." + key id + "." + base64url(nonce + AES-256-GCM). Its
// associated data says where it belongs, so that one copied to another place does not open.
//
// An API key is "ak_" + 26 characters that name it + "_" + 32 characters of secret + 6 of
// CRC-32, both in base62: 190 bits nobody can guess, and a typing error shows without a
// look into the database, which keeps only the SHA-256.
package secrets
