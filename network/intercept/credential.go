package intercept

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"osaurus-sandbox/config"
)

// Position is where in a request a credential stands.
type Position uint8

const (
	InHeader Position = iota // anywhere in the value of a header
	InQuery                  // in a parameter of the query
	InBasic                  // the user or the password of basic authentication
)

// Credential is a secret that is bound to a host. Its value takes the place of the placeholder in
// one position. Elsewhere in a request's head the placeholder is refused; in a body it stays.
type Credential struct {
	Secret      config.SecretName
	Placeholder string
	Hosts       []string // to which the secret is bound, for texts
	// Value returns the secret's value.
	Value func(context.Context) (string, error)
	In    Position
	// Key is the name of the header or parameter. Empty is Authorization.
	Key string
	// Require refuses requests to this host with another credential, or with none. It looks at heads
	// only.
	Require bool
}

func (c *Credential) key() string {
	switch {
	case c.In == InQuery:
		return c.Key
	case c.In == InBasic:
		return "Authorization"
	}
	return http.CanonicalHeaderKey(cmp.Or(c.Key, "Authorization"))
}

// place returns the position for people, and the option of "secret set" that chooses it.
func (c *Credential) place() (text, option string) {
	switch c.In {
	case InQuery:
		return "the parameter " + clip(c.Key), " --query " + clip(c.Key)
	case InBasic:
		return "basic authentication", " --basic"
	}
	return "the header " + c.key(), " --header " + c.key()
}

// credentials puts values in the place of placeholders, or says why the request is refused.
func (x *exchange) credentials(r *http.Request) *refusal {
	if len(x.Credentials)+len(x.Foreign) == 0 {
		return nil
	}
	if refused := x.required(r); refused != nil {
		return refused
	}
	s := &substitution{x: x, ctx: r.Context()}
	s.stray(r.URL.Path+"\n"+r.URL.RawPath, "the path", "")
	for key, values := range r.Header {
		for i, value := range values {
			values[i] = s.header(key, value)
		}
	}
	r.URL.RawQuery = s.query(r.URL.RawQuery)
	return s.refused
}

// substitution is the work on one request's head. It ends with the first refusal.
type substitution struct {
	x       *exchange
	ctx     context.Context
	refused *refusal
}

// header returns the value of a header for the server.
func (s *substitution) header(key, value string) string {
	if login, ok := basic(key, value); ok {
		if replaced := s.replace(login, &Credential{In: InBasic}); replaced != login {
			return "Basic " + base64.StdEncoding.EncodeToString([]byte(replaced))
		}
		return value
	}
	replaced := s.replace(value, &Credential{Key: key})
	if replaced != value && strings.ContainsFunc(replaced, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
		s.refuse("the value of the secret has characters that a header cannot have", "")
		return value
	}
	return replaced
}

// query returns a query for the server. Parameters without a placeholder stay as they are.
func (s *substitution) query(raw string) string {
	pairs := strings.Split(raw, "&")
	for i, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		key, text := unescape(name), unescape(value)
		s.stray(key, "the name of a parameter", "")
		if replaced := s.replace(text, &Credential{In: InQuery, Key: key}); replaced != text {
			pairs[i] = name + "=" + url.QueryEscape(replaced)
		}
	}
	return strings.Join(pairs, "&")
}

// replace puts values into the text of a position. A placeholder that is not bound to it is a stray.
func (s *substitution) replace(text string, at *Credential) string {
	var pairs []string
	rest := text
	for _, c := range s.x.longestFirst() {
		if c.In != at.In || c.key() != at.key() || !strings.Contains(rest, c.Placeholder) || s.refused != nil {
			continue
		}
		if !s.x.TLS && !s.x.Cleartext {
			s.refuse(fmt.Sprintf("the value of %s is not sent without TLS", c.Secret), "use https://"+s.x.Name)
			continue
		}
		value, err := c.Value(s.ctx)
		if value = strings.TrimRight(value, "\r\n"); err == nil && value == "" {
			err = errors.New("it is empty")
		}
		if err != nil {
			s.refuse(fmt.Sprintf("the value of %s cannot be sent: %v", c.Secret, err), "")
			continue
		}
		rest = strings.ReplaceAll(rest, c.Placeholder, "\x00")
		pairs = append(pairs, c.Placeholder, value)
	}
	where, option := at.place()
	s.stray(rest, where, option)
	if len(pairs) == 0 || s.refused != nil {
		return text
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// stray refuses a request with a placeholder where it is not replaced. The option would bind it
// there, if that is possible.
func (s *substitution) stray(text, where, option string) {
	for i, c := range slices.Concat(s.x.Credentials, s.x.Foreign) {
		if c.Placeholder == "" || !strings.Contains(text, c.Placeholder) {
			continue
		}
		reason := fmt.Sprintf("%s is bound to %s, and its placeholder is in %s of a request to %s",
			c.Secret, cmp.Or(strings.Join(c.Hosts, ", "), "no host"), where, s.x.Name)
		if i < len(s.x.Credentials) {
			place, _ := c.place()
			reason = fmt.Sprintf("the placeholder of %s is in %s; for %s it belongs in %s", c.Secret, where, s.x.Name, place)
		}
		s.refuse(reason, fmt.Sprintf("osaurus-sandbox secret set %s %s --host %s%s", s.x.agent(), c.Secret, s.x.Name, option))
		return
	}
}

func (s *substitution) refuse(reason, advice string) {
	if s.refused == nil {
		s.refused = &refusal{status: http.StatusForbidden, reason: reason, advice: advice}
	}
}

// longestFirst returns the credentials so that a placeholder that begins like another one is
// replaced as a whole.
func (p *proxy) longestFirst() []*Credential {
	var list []*Credential
	for i := range p.Credentials {
		if p.Credentials[i].Placeholder != "" {
			list = append(list, &p.Credentials[i])
		}
	}
	slices.SortStableFunc(list, func(a, b *Credential) int { return len(b.Placeholder) - len(a.Placeholder) })
	return list
}

// basic returns user and password of basic authentication, if a header has them.
func basic(key, value string) (string, bool) {
	scheme, code, ok := strings.Cut(value, " ")
	if key != "Authorization" || !ok || !strings.EqualFold(scheme, "basic") {
		return "", false
	}
	text, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(code), "="))
	return string(text), err == nil
}

// parameters returns the names and values of a query. It also splits at semicolons, as some servers
// do.
func parameters(raw string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for pair := range strings.FieldsFuncSeq(raw, func(c rune) bool { return c == '&' || c == ';' }) {
			name, value, _ := strings.Cut(pair, "=")
			if !yield(unescape(name), unescape(value)) {
				return
			}
		}
	}
}

// unescape decodes a part of a query as far as that is possible.
func unescape(text string) string {
	if decoded, err := url.QueryUnescape(text); err == nil {
		return decoded
	}
	return text
}
