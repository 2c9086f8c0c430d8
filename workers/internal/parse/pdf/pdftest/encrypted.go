package pdftest

import (
	"crypto/md5" //nolint:gosec // G501: such PDFs use MD5
	"crypto/rc4" //nolint:gosec // G503: such PDFs use RC4
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
)

// padding is the text with which the PDF specification pads short passwords.
const padding = "\x28\xBF\x4E\x5E\x4E\x75\x8A\x41\x64\x00\x4E\x56\xFF\xFA\x01\x08" +
	"\x2E\x2E\x00\xB6\xD0\x68\x3E\x80\x2F\x0C\xA9\xFE\x64\x53\x69\x7A"

const (
	keySize     = 5
	permissions = 0xFFFFFFC0 // without the owner's password, users have no permissions
)

// Encrypted returns a PDF with one page of text that is encrypted with the given passwords
// (revision 2 of the standard handler). If the user's password is empty, everyone can open the PDF.
func Encrypted(user, owner, text string) []byte {
	id := "0123456789abcdef"
	ownerKey := md5.Sum([]byte(padded(owner))) //nolint:gosec // G401: see above
	o := crypt(ownerKey[:keySize], padded(user))
	hash := md5.New() //nolint:gosec // G401: see above
	hash.Write([]byte(padded(user) + o))
	hash.Write(binary.LittleEndian.AppendUint32(nil, permissions))
	hash.Write([]byte(id))
	key := hash.Sum(nil)[:keySize]
	f := Pages(Text(12, text))
	const content = 5
	before, after, _ := strings.Cut(f.Objects[content-1], "stream\n")
	plain := strings.TrimSuffix(after, "\nendstream")
	f.Objects[content-1] = before + "stream\n" + crypt(objectKey(key, content), plain) + "\nendstream"
	p := uint32(permissions)
	f.Objects = append(f.Objects, fmt.Sprintf("<< /Filter /Standard /V 1 /R 2 /O <%s> /U <%s> /P %d >>",
		hex.EncodeToString([]byte(o)), hex.EncodeToString([]byte(crypt(key, padding))), int32(p)))
	f.Trailer = fmt.Sprintf("/Encrypt %d 0 R /ID [<%s> <%s>]", len(f.Objects), hex.EncodeToString([]byte(id)), hex.EncodeToString([]byte(id)))
	return f.Bytes()
}

func padded(password string) string { return (password + padding)[:len(padding)] }

func crypt(key []byte, text string) string {
	c, err := rc4.NewCipher(key) //nolint:gosec // G405: see above
	if err != nil {
		panic(err)
	}
	out := make([]byte, len(text))
	c.XORKeyStream(out, []byte(text))
	return string(out)
}

func objectKey(key []byte, number byte) []byte {
	sum := md5.Sum(append(append([]byte{}, key...), number, 0, 0, 0, 0)) //nolint:gosec // G401: see above
	return sum[:keySize+5]
}
