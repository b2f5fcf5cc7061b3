package source

import (
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
	// getLimit is how long a person waits for some kilobytes, with all redirects.
	getLimit = time.Minute
	// maxRedirects is what a moved file needs, and more.
	maxRedirects = 5
	// maxCommit is more than the 40 digits of a commit.
	maxCommit = 256
)

// The files of a repository that are a recipe, the first that there is.
func recipeFiles() []string { return []string{"osaurus.json", "plugin.json"} }

// Fetched is a recipe from elsewhere.
type Fetched struct {
	// Recipe says in its metadata where it came from: imported_from and imported_sha256.
	Recipe plugins.Recipe
	// From is the address that was read: of a repository, at the commit that was meant.
	From string
	// SHA256 is what was read, in hexadecimal digits.
	SHA256 string
}

// Get reads a recipe. It fails with fault.NotFound, with fault.Rejected where the address leads to this computer or its
// network, fault.InvalidArgs if what is there is no recipe, and fault.Unavailable if nobody answers.
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

// repository reads the recipe of a repository, at the commit that its ref is now.
func (c *Client) repository(ctx context.Context, r repository) (Fetched, error) {
	ref := r.ref
	if ref == "" {
		ref = "HEAD"
	}
	where := r.owner + "/" + r.name
	text, err := c.read(ctx, c.options.GitHubAPI+"/repos/"+where+"/commits/"+url.PathEscape(ref), maxCommit, http.Header{"Accept": {"application/vnd.github.sha"}})
	if err != nil {
		return Fetched{}, fault.Wrap("find commit", where+"@"+ref, err).Advise("See that the repository is public, and that it has that branch, tag or commit.")
	}
	commit := string(text)
	if !commitText.MatchString(commit) {
		return Fetched{}, fault.Newf(fault.Execution, "find commit", where+"@"+ref, "the answer is no commit").
			Advise("Try again later; if it stays so, download the recipe yourself and import the file.")
	}
	for _, name := range recipeFiles() {
		from := c.options.GitHubRaw + "/" + where + "/" + commit + "/" + name
		text, err := c.read(ctx, from, plugins.MaxRecipe, nil)
		if fault.KindOf(err) == fault.NotFound && err != nil {
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

// read reads a file of the web that is no longer than max.
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
		return nil, fault.New(fault.Unavailable, op, address, err).Advise("See that this computer reaches it: open the address in a browser.")
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return nil, fault.Newf(fault.NotFound, op, address, "there is nothing there").Advise("See that the address is right.")
	case resp.StatusCode != http.StatusOK:
		return nil, fault.Newf(fault.Unavailable, op, address, "the server answers %s", resp.Status).Advise("Try again later, or download it yourself and import the file.")
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, max+1))
	if err != nil {
		return nil, fault.New(fault.Unavailable, op, address, err).Advise("Try again.")
	}
	if int64(len(text)) > max {
		return nil, fault.Newf(fault.Rejected, op, address, "it is longer than %d bytes", max).Advise("A recipe is short: see that the address is right.")
	}
	return text, nil
}
