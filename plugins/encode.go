package plugins

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

// Hash is a recipe's content in 64 hexadecimal digits.
type Hash string

// Encode writes the recipe in its canonical form: keys sorted, empty values left out, indented by two spaces, with a
// newline at the end. Parse reads the same recipe from it. Hashes of installed recipes depend on this form.
func (r Recipe) Encode() ([]byte, error) {
	r.ModifiedAt = r.ModifiedAt.UTC()
	text, err := json.Marshal(plainRecipe(r))
	var object map[string]any // sorts the keys
	if err == nil {
		err = unmarshal(text, &object)
	}
	if err == nil {
		text, err = printable.Document(object)
	}
	if err != nil {
		return nil, fault.New(fault.InvalidArgs, "write recipe", brief(r.Name), err)
	}
	return text, nil
}

// Hash is the SHA-256 of the canonical form without the time of the last change.
func (r Recipe) Hash() (Hash, error) {
	r.ModifiedAt = time.Time{}
	text, err := r.Encode()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return Hash(hex.EncodeToString(sum[:])), nil
}

// MarshalJSON writes the canonical form.
func (r Recipe) MarshalJSON() ([]byte, error) { return r.Encode() }

// UnmarshalJSON reads a recipe as Parse does.
func (r *Recipe) UnmarshalJSON(text []byte) error {
	parsed, err := Parse(text)
	if err == nil {
		*r = parsed
	}
	return err
}
