package tools

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"osaurus-sandbox/internal/fault"
)

// nearNames is how many similar names a failure shows.
const nearNames = 5

// missing converts an error about a path. If the path does not exist, it adds similar names in the
// same folder.
func (c *Call) missing(ctx context.Context, p Path, err error) error {
	failure := aboutPath(err)
	f, ok := failure.(*Failure)
	if !ok || f.Kind != fault.NotFound || p.Rel == "." {
		return failure
	}
	folder := Path{p.Root, path.Dir(p.Rel)}
	entries, more, err := c.room.ListFolder(ctx, folder.file(), maxListed)
	if err != nil {
		f.Message += ". Its folder does not exist either: list the folder above with sandbox_read_file"
		return f
	}
	like := path.Base(p.Rel)
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name, ".") == strings.HasPrefix(like, ".") {
			names = append(names, strings.ToValidUTF8(e.Name, "\uFFFD"))
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return likeness(like, b) - likeness(like, a) })
	switch shown := names[:min(len(names), nearNames)]; {
	case len(names) == 0:
		f.Message += fmt.Sprintf(". %s has nothing like it", folder)
	case len(names) > len(shown) || more:
		f.Message += fmt.Sprintf(". %s has %s and others: list it with sandbox_read_file", folder, strings.Join(shown, ", "))
	default:
		f.Message += fmt.Sprintf(". %s has %s", folder, strings.Join(shown, ", "))
	}
	return f
}
