package source

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/plugins"
)

const (
	// getLimit bounds a download with its redirects.
	getLimit     = time.Minute
	maxRedirects = 5
	// maxCommit bounds the answer with a commit, which has 40 digits.
	maxCommit = 256
)

// Fetched is a downloaded recipe.
type Fetched struct {
	// Recipe has the metadata imported_from and imported_sha256.
	Recipe plugins.Recipe
	// From is the address of the file, at a commit if it is in a repository.
	From string
	// SHA256 is the digest of the file in hexadecimal digits.
	SHA256 string
}

// Get downloads a recipe. It fails with NotFound, with Rejected if the address is local, with
// InvalidArgs if the file is not a valid recipe, and with Unavailable if the server cannot be reached.
func (c *Client) Get(ctx context.Context, s Source) (Fetched, error) {
	ctx, cancel := context.WithTimeout(ctx, getLimit)
	defer cancel()
	if s.address != nil {
		text, err := c.read(ctx, s.address.String(), plugins.MaxRecipe, nil)
		if err != nil {
			return Fetched{}, err
		}
		return made(s.address.String(), text)
	}
	return c.repository(ctx, s.repository)
}

// repository downloads the recipe of a repository at the commit of its ref.
func (c *Client) repository(ctx context.Context, r repository) (Fetched, error) {
	ref := cmp.Or(r.ref, "HEAD")
	where := r.owner + "/" + r.name
	text, err := c.read(ctx, c.options.GitHubAPI+"/repos/"+where+"/commits/"+url.PathEscape(ref), maxCommit, http.Header{"Accept": {"application/vnd.github.sha"}})
	if err != nil {
		return Fetched{}, fault.Wrap("find commit", where+"@"+ref, err).Advise("Check that the repository is public, and that it has that branch, tag or commit.")
	}
	commit := string(text)
	if !commitText.MatchString(commit) {
		return Fetched{}, fault.Newf(fault.Execution, "find commit", where+"@"+ref, "the answer is not a commit").
			Advise("Try again later. If that does not help, download the recipe yourself and import the file.")
	}
	for _, name := range []string{"osaurus.json", "plugin.json"} {
		from := c.options.GitHubRaw + "/" + where + "/" + commit + "/" + name
		text, err := c.read(ctx, from, plugins.MaxRecipe, nil)
		if fault.KindOf(err) == fault.NotFound {
			continue
		}
		if err != nil {
			return Fetched{}, err
		}
		f, err := made(from, text)
		if err == nil && f.Recipe.Source == "" {
			f.Recipe.Source = "https://github.com/" + where
		}
		return f, err
	}
	return Fetched{}, fault.Newf(fault.NotFound, "find recipe", where+"@"+commit, "the repository has no osaurus.json and no plugin.json").
		Advise("Name the file itself: https://raw.githubusercontent.com/" + where + "/" + commit + "/PATH")
}

func made(from string, text []byte) (Fetched, error) {
	sum := sha256.Sum256(text)
	f := Fetched{From: from, SHA256: hex.EncodeToString(sum[:])}
	var err error
	if f.Recipe, err = plugins.Parse(text); err != nil {
		return Fetched{}, fault.New(fault.InvalidArgs, "import", from, err)
	}
	if f.Recipe.Metadata == nil {
		f.Recipe.Metadata = map[string]any{}
	}
	f.Recipe.Metadata["imported_from"], f.Recipe.Metadata["imported_sha256"] = f.From, f.SHA256
	return f, nil
}

// read downloads a file of at most max bytes.
func (c *Client) read(ctx context.Context, address string, max int64, header http.Header) ([]byte, error) {
	const op = "download"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fault.New(fault.InvalidArgs, op, address, err)
	}
	for key, values := range header {
		req.Header[key] = values
	}
	req.Header.Set("User-Agent", "osaurus-sandbox")
	resp, err := c.http.Do(req)
	if refused, is := errors.AsType[*refusal](err); is {
		return nil, fault.New(fault.Rejected, op, address, refused).Advise("Recipes come from public addresses. Download it yourself, and import the file.")
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, op, address, err).Advise("Check that this computer reaches it: open the address in a browser.")
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return nil, fault.Newf(fault.NotFound, op, address, "not found").Advise("Check that the address is right.")
	case resp.StatusCode != http.StatusOK:
		return nil, fault.Newf(fault.Unavailable, op, address, "the server answers %s", resp.Status).Advise("Try again later, or download it yourself and import the file.")
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, max+1))
	if err != nil {
		return nil, fault.New(fault.Unavailable, op, address, err).Advise("Try again.")
	}
	if int64(len(text)) > max {
		return nil, fault.Newf(fault.Rejected, op, address, "it is longer than %d bytes", max).Advise("A recipe is short: check that the address is right.")
	}
	return text, nil
}
