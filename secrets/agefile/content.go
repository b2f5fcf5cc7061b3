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

// content holds values by service and account, like the system's stores.
type content map[string]map[string]string

// document is the plaintext of the file.
type document struct {
	Version int     `json:"version"`
	Secrets content `json:"secrets"`
}

const (
	formatVersion = 1
	// maxSize bounds the file: 60 secrets of the largest size, or tens of thousands
	// of tokens.
	maxSize = 4 << 20
)

// read returns the content of the file, which is empty if there is no file. It
// calls ask if the key has a passphrase.
func (s *keyring) read(ctx context.Context, op string, ask Prompt) (content, error) {
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
		return nil, fault.Newf(fault.Rejected, op, path, "it is not encrypted with the key in %s", s.home.SecretsKey()).
			Advise("Restore its key, or start over: mv " + path + " " + path + ".lost")
	}
	var d document
	if err != nil || json.Unmarshal(text, &d) != nil {
		return nil, fault.Newf(fault.Rejected, op, path, "the file is damaged").
			Advise("Restore a backup, or start over: mv " + path + " " + path + ".lost")
	}
	if d.Version != formatVersion {
		return nil, fault.Newf(fault.Rejected, op, path, "unsupported format %d; this program supports %d", d.Version, formatVersion).
			Advise("Use the version of osaurus-sandbox that wrote it.")
	}
	if d.Secrets == nil {
		d.Secrets = content{}
	}
	return d.Secrets, nil
}

// write replaces the file. It creates the key if there is none.
func (s *keyring) write(ctx context.Context, op string, all content) error {
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
			Advise("Delete secrets that are no longer needed, or keep large ones elsewhere.")
	}
	return config.WriteFile(path, sealed)
}

// seal encrypts a file's content for a recipient.
func seal(text []byte, to age.Recipient) ([]byte, error) {
	var sealed bytes.Buffer
	w, err := age.Encrypt(&sealed, to)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	err = w.Close()
	return sealed.Bytes(), err
}

// open decrypts a file's content.
func open(sealed []byte, with age.Identity) ([]byte, error) {
	r, err := age.Decrypt(bytes.NewReader(sealed), with)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
