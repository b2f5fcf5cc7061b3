package secretservice

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"math/big"

	"github.com/godbus/dbus/v5"
)

// Values cross the bus encrypted, so that recordings of it (dbus-monitor, bug
// reports) do not contain them. This does not protect against programs on the bus,
// which can ask the keyring themselves.

// algorithm is the one that every keyring supports: 1024-bit Diffie-Hellman, HKDF
// with SHA-256, AES-128-CBC.
const algorithm = "dh-ietf1024-sha256-aes128-cbc-pkcs7"

// groupSize is the size of a number of the group in bytes.
const groupSize = 128

// prime returns the prime of RFC 2409's second Oakley group. Its generator is 2.
func prime() *big.Int {
	p, _ := new(big.Int).SetString(""+
		"FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74"+
		"020BBEA63B139B22514A08798E3404DDEF9519B3CD3A431B302B0A6DF25F1437"+
		"4FE1356D6D51C245E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7ED"+
		"EE386BFB5A899FA5AE9F24117C4B1FE649286651ECE65381FFFFFFFFFFFFFFFF", 16)
	return p
}

type (
	privateKey struct{ *big.Int }
	sessionKey []byte
	// sealedSecret is an encrypted value on the bus.
	sealedSecret struct {
		Session     dbus.ObjectPath
		Parameters  []byte // initialization vector
		Value       []byte
		ContentType string
	}
)

func newKeyPair() (private privateKey, public []byte, err error) {
	p := prime()
	x, err := rand.Int(rand.Reader, new(big.Int).Sub(p, big.NewInt(3)))
	if err != nil {
		return privateKey{}, nil, err
	}
	x.Add(x, big.NewInt(2))
	return privateKey{x}, new(big.Int).Exp(big.NewInt(2), x, p).FillBytes(make([]byte, groupSize)), nil
}

// agree derives the session key. The shared number is padded to the size of the
// prime, since one in 256 begins with a zero byte.
func (private privateKey) agree(theirs []byte) (sessionKey, error) {
	p, public := prime(), new(big.Int).SetBytes(theirs)
	if public.Cmp(big.NewInt(1)) <= 0 || public.Cmp(new(big.Int).Sub(p, big.NewInt(1))) >= 0 {
		return nil, errors.New("the keyring sent an invalid public key")
	}
	common := new(big.Int).Exp(public, private.Int, p).FillBytes(make([]byte, groupSize))
	return hkdf.Key(sha256.New, common, nil, "", aes.BlockSize)
}

func (s *session) seal(text []byte) (sealedSecret, error) {
	block, err := aes.NewCipher(s.key)
	if err != nil {
		return sealedSecret{}, err
	}
	iv := make([]byte, aes.BlockSize)
	_, _ = rand.Read(iv) // never fails
	padding := aes.BlockSize - len(text)%aes.BlockSize
	sealed := append(bytes.Clone(text), bytes.Repeat([]byte{byte(padding)}, padding)...)
	cipher.NewCBCEncrypter(block, iv).CryptBlocks(sealed, sealed)
	return sealedSecret{s.path, iv, sealed, "text/plain; charset=utf8"}, nil
}

func (s *session) unseal(sealed sealedSecret) ([]byte, error) {
	damaged := errors.New("the keyring's answer is damaged")
	block, err := aes.NewCipher(s.key)
	if err != nil {
		return nil, err
	}
	size := len(sealed.Value)
	if len(sealed.Parameters) != aes.BlockSize || size == 0 || size%aes.BlockSize != 0 {
		return nil, damaged
	}
	text := make([]byte, size)
	cipher.NewCBCDecrypter(block, sealed.Parameters).CryptBlocks(text, sealed.Value)
	padding := int(text[size-1])
	if padding == 0 || padding > aes.BlockSize || !bytes.Equal(text[size-padding:], bytes.Repeat([]byte{byte(padding)}, padding)) {
		return nil, damaged
	}
	return text[:size-padding], nil
}
