package intercept

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// bearer matches a header with a required placeholder and nothing else: "Bearer …", `Token token="…"`.
// With a second credential in the header, the server might use that one.
var bearer = regexp.MustCompile(`^(?:[A-Za-z-]{1,16} +)?(?:[A-Za-z_-]{1,16}=)?"?\x00"?$`)

// accountHeader reports whether servers know an account by a header.
func accountHeader(key string) bool {
	switch key {
	case "Authorization", "X-Api-Key", "Api-Key", "Apikey", "X-Auth-Token", "X-Access-Token", "X-Token", "Private-Token",
		"Job-Token", "Deploy-Token", "X-Goog-Api-Key", "X-Amz-Security-Token", "X-Ms-Authorization-Auxiliary", "X-Vault-Token":
		return true
	}
	return false
}

// accountParameter reports whether servers know an account by a parameter.
func accountParameter(key string) bool {
	switch strings.ToLower(key) {
	case "access_token", "api_key", "apikey", "api-key", "auth_token", "private_token", "job_token", "oauth_token", "client_secret",
		"x-amz-credential", "x-amz-signature", "x-goog-credential", "x-goog-signature":
		return true
	}
	return false
}

// required checks that a request has the credential that the host requires, and no other. The agent
// cannot carry data out with somebody else's account then. Cookies are dropped: servers set them
// without being asked.
func (x *exchange) required(r *http.Request) *refusal {
	var wanted *Credential
	for i := range x.Credentials {
		if c := &x.Credentials[i]; c.Require && (wanted == nil || c.In == InBasic) {
			wanted = c
		}
	}
	if wanted == nil {
		return nil
	}
	if !slices.ContainsFunc(x.Credentials, func(c Credential) bool { return c.In == InHeader && c.key() == "Cookie" }) {
		r.Header.Del("Cookie")
	}
	for _, options := range r.Header["Connection"] { // the headers that it names are not sent
		for option := range strings.SplitSeq(options, ",") {
			if key := http.CanonicalHeaderKey(strings.TrimSpace(option)); x.bound(InHeader, key) || key == "Authorization" {
				return foreign(wanted, "hides the header "+key)
			}
		}
	}
	found, any := false, false
	for key, values := range r.Header {
		if !accountHeader(key) && !x.bound(InHeader, key) {
			continue
		}
		for _, value := range values {
			c := x.fits(InHeader, key, value)
			if c == nil {
				return foreign(wanted, "has another credential in the header "+key)
			}
			found, any = found || c.Require, true
		}
	}
	for key, value := range parameters(r.URL.RawQuery) {
		if !accountParameter(key) && !x.bound(InQuery, key) {
			continue
		}
		c := x.fits(InQuery, key, value)
		if c == nil {
			return foreign(wanted, "has another credential in the parameter "+clip(key))
		}
		found, any = found || c.Require, true
	}
	if found {
		return nil
	}
	missing := foreign(wanted, "has no credential")
	if !any && wanted.In == InBasic { // git and others send a password only when they are asked
		missing.status, missing.challenge = http.StatusUnauthorized, true
	}
	return missing
}

func (x *exchange) bound(in Position, key string) bool {
	return slices.ContainsFunc(x.Credentials, func(c Credential) bool {
		return c.key() == key && (c.In == in || in == InHeader && c.In == InBasic)
	})
}

// fits returns the credential whose placeholder is the whole value of a header or a parameter.
func (x *exchange) fits(in Position, key, value string) *Credential {
	login, isBasic := basic(key, value)
	user, password, _ := strings.Cut(login, ":")
	for _, c := range x.longestFirst() {
		switch {
		case c.key() != key || (c.In == InQuery) != (in == InQuery):
		case c.In == InQuery && value == c.Placeholder:
			return c
		case c.In == InHeader && strings.Count(value, c.Placeholder) == 1 && bearer.MatchString(strings.Replace(value, c.Placeholder, "\x00", 1)):
			return c
		case c.In == InBasic && isBasic && password == c.Placeholder:
			return c
		// GitHub takes the user as the token only if there is no other.
		case c.In == InBasic && isBasic && user == c.Placeholder && (password == "" || password == "x-oauth-basic"):
			return c
		}
	}
	return nil
}

func foreign(c *Credential, what string) *refusal {
	place, _ := c.place()
	return &refusal{
		status: http.StatusForbidden,
		reason: fmt.Sprintf("%s accepts only the placeholder of %s in %s, and the request %s", cmp.Or(strings.Join(c.Hosts, ", "), "this host"), c.Secret, place, what),
		advice: fmt.Sprintf("use the placeholder in $%s or from the command \"osaurus-host secrets get %s\"", c.Secret, c.Secret),
	}
}
