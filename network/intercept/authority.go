package intercept

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net"
	"sync"
	"time"

	"osaurus-sandbox/internal/fault"
)

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	// renewBefore is how long before its end an authority is replaced. Rooms get the new
	// certificate when they are next made ready.
	renewBefore = 30 * 24 * time.Hour
	// leafLife is short, since leaves are made on demand. skew lets a guest's clock be wrong by a
	// day in both directions, as it may be after this computer has slept.
	leafLife = 72 * time.Hour
	skew     = 24 * time.Hour
	// maxLeaves bounds the cache. Making a leaf takes less than a millisecond.
	maxLeaves = 256

	keyBlock  = "PRIVATE KEY"
	certBlock = "CERTIFICATE"
)

// Store keeps the authority's key and certificate as PEM text.
type Store interface {
	// Load returns the text, or an error that wraps fs.ErrNotExist.
	Load() ([]byte, error)
	Save([]byte) error
}

// Authority signs the certificates with which the gateway answers for hosts that it opens. Its
// methods may be called from any goroutine.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	leafKey     *ecdsa.PrivateKey // of all leaves

	mu     sync.Mutex
	leaves map[string]*tls.Certificate
}

// OpenAuthority loads the authority of this installation. It makes one if there is none, or if the
// one that is there ends soon.
func OpenAuthority(s Store) (*Authority, error) {
	const op = "open the certificate authority"
	a := &Authority{leaves: map[string]*tls.Certificate{}}
	text, err := s.Load()
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && len(text) == 0:
		err = a.make(s)
	case err == nil:
		if err = a.parse(text); err != nil {
			return nil, fault.New(fault.Execution, op, "", err).Advise("Delete the stored authority. The next start makes a new one.")
		}
		if time.Until(a.certificate.NotAfter) < renewBefore {
			err = a.make(s)
		}
	}
	if err != nil {
		return nil, fault.Wrap(op, "", err)
	}
	a.leafKey, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	return a, err
}

// make makes a new key and certificate, and saves them.
func (a *Authority) make(s Store) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{Organization: []string{"Osaurus Sandbox"}, CommonName: "Osaurus Sandbox gateway"},
		NotBefore: time.Now().Add(-skew), NotAfter: time.Now().Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	certificate, err := sign(template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: encoded})
	text = append(text, pem.EncodeToMemory(&pem.Block{Type: certBlock, Bytes: certificate})...)
	if err := s.Save(text); err != nil {
		return err
	}
	return a.parse(text)
}

// parse reads what make saved.
func (a *Authority) parse(text []byte) error {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		switch block.Type {
		case keyBlock:
			key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
			if err != nil {
				return errors.New("the key cannot be read") // x509's error may quote it
			}
			a.key, _ = key.(*ecdsa.PrivateKey)
		case certBlock:
			certificate, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return err
			}
			a.certificate = certificate
		}
	}
	if a.key == nil || a.certificate == nil || !a.certificate.IsCA || !a.key.PublicKey.Equal(a.certificate.PublicKey) {
		return errors.New("its text does not have a key and the certificate of that key")
	}
	return nil
}

// PEM returns the certificate for trust stores.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certBlock, Bytes: a.certificate.Raw})
}

// leaf returns a certificate for a host name or an address.
func (a *Authority) leaf(name string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.leaves[name]; c != nil && time.Until(c.Leaf.NotAfter) > skew {
		return c, nil
	}
	template := &x509.Certificate{
		NotBefore: time.Now().Add(-skew), NotAfter: time.Now().Add(leafLife),
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{name}
	}
	raw, err := sign(template, a.certificate, &a.leafKey.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParseCertificate(raw)
	if err != nil {
		return nil, err
	}
	c := &tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: a.leafKey, Leaf: parsed}
	if len(a.leaves) >= maxLeaves {
		clear(a.leaves)
	}
	a.leaves[name] = c
	return c, nil
}

// sign gives a certificate a random serial number and signs it.
func sign(template, parent *x509.Certificate, public *ecdsa.PublicKey, key *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	return x509.CreateCertificate(rand.Reader, template, parent, public, key)
}
