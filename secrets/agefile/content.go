package agefile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"

	"filippo.io/age"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

// content is what is in the file: values by service and account, as the
// system's own stores have them.
type content map[string]map[string]string

// document is the content as it is encrypted.
type document struct {
	Version int     `json:"version"`
	Secrets content `json:"secrets"`
}

const (
	// formatVersion is the format of the document that this program knows.
	formatVersion = 1
	// maxSize bounds what is read, and so what is kept: 60 secrets of the largest
	// size, or tens of thousands of tokens.
	maxSize = 4 << 20
)

// read reads the file. One that is not there has nothing in it. Ask asks for
// the passphrase of the key, if need be.
func (s *Store) read(ctx context.Context, op string, ask Prompt) (content, error) {
	path := s.home.Secrets()
	if err := ctx.Err(); err != nil {
		return nil, fault.Wrap(op, path, err)
	}
	sealed, err := readPrivate(path, maxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return content{}, nil
	} else if err != nil {
		return nil, err
	}
	id, err := s.key.get(ctx, op, ask)
	if errors.Is(err, errNoKey) {
		return nil, s.key.gone(op)
	} else if err != nil {
		return nil, err
	}
	text, err := open(sealed, id)
	if _, another := errors.AsType[*age.NoIdentityMatchError](err); another {
		return nil, fault.Newf(fault.Rejected, op, path, "it is encrypted with another key than %s", s.home.SecretsKey()).
			Advise("Bring back the key that belongs to it, or begin anew: mv " + path + " " + path + ".lost")
	}
	var d document
	if err != nil || json.Unmarshal(text, &d) != nil {
		return nil, fault.Newf(fault.Rejected, op, path, "it is damaged, or no file of secrets").
			Advise("Bring back a copy of it, or begin anew: mv " + path + " " + path + ".lost")
	}
	if d.Version != formatVersion {
		return nil, fault.Newf(fault.Rejected, op, path, "its format is %d, and this program knows %d", d.Version, formatVersion).
			Advise("Use the newer osaurus-sandbox that wrote it.")
	}
	if d.Secrets == nil {
		d.Secrets = content{}
	}
	return d.Secrets, nil
}

// write replaces the file, and makes the key if there is none.
func (s *Store) write(ctx context.Context, op string, all content) error {
	path := s.home.Secrets()
	text, err := json.Marshal(document{formatVersion, all})
	if err != nil {
		return fault.New(fault.Execution, op, path, err)
	}
	id, err := s.key.getOrMake(ctx, op)
	if err != nil {
		return err
	}
	sealed, err := seal(text, id.Recipient())
	if err != nil {
		return fault.New(fault.Execution, op, path, err)
	}
	if len(sealed) > maxSize {
		return fault.Newf(fault.Rejected, op, path, "the file would be larger than %d bytes", maxSize).
			Advise("Delete secrets that nobody needs, or keep large ones elsewhere.")
	}
	return config.WriteFile(path, sealed)
}

// seal encrypts a text for whoever has the recipient's identity.
func seal(text []byte, to age.Recipient) ([]byte, error) {
	var sealed bytes.Buffer
	w, err := age.Encrypt(&sealed, to)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	err = w.Close() // which writes the end
	return sealed.Bytes(), err
}

// open is the text that was sealed.
func open(sealed []byte, with age.Identity) ([]byte, error) {
	r, err := age.Decrypt(bytes.NewReader(sealed), with)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
