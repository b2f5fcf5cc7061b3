package plugins

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
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
	object, err := convert[map[string]any](plainRecipe(r))
	if err == nil {
		var text []byte
		if text, err = printable.Document(canonical(recipeSchema(), object)); err == nil {
			return text, nil
		}
	}
	return nil, fault.New(fault.InvalidArgs, "write recipe", brief(r.Name), err)
}

// canonical puts the extra keys of objects back beside the known ones, and shortens subscriptions that have only a topic.
func canonical(s schema, v any) any {
	if choices, ok := s["anyOf"].([]schema); ok {
		s = choices[1]
	}
	switch v := v.(type) {
	case []any:
		if items, ok := s["items"].(schema); ok {
			for i := range v {
				v[i] = canonical(items, v[i])
				if m, ok := v[i].(map[string]any); ok && items["anyOf"] != nil && len(m) == 1 && m["topic"] != nil {
					v[i] = m["topic"]
				}
			}
		}
	case map[string]any:
		if rest, ok := s["additionalProperties"].(schema); ok {
			for key := range v {
				v[key] = canonical(rest, v[key])
			}
		}
		known, ok := s["properties"].(map[string]schema)
		if !ok {
			return v
		}
		extra, _ := v[extraKey].(map[string]any)
		delete(v, extraKey)
		for key := range v {
			v[key] = canonical(known[key], v[key])
		}
		if extra != nil {
			maps.Copy(extra, v)
			return extra
		}
	}
	return v
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
