package review

import (
	"bytes"
	"context"
	"io"

	"osaurus-sandbox/internal/fault"
)

// Reject writes the real version of what is selected to the agent's view, or removes what
// the real folder does not have.
func (r *Review) Reject(ctx context.Context, sel Selection) (*Report, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, err := r.scan(ctx)
	if err != nil {
		return nil, err
	}
	list, report, err := s.choose(ctx, sel, func(c *change) bool { return c.Before.Kind == Folder && c.upper.Kind == Nothing })
	if err != nil {
		return nil, err
	}
	for _, c := range inOrder(list, func(c chosen) bool { return c.Before.Kind == Nothing }) {
		if err := ctx.Err(); err != nil {
			return report, fault.Wrap("reject", c.Path, err)
		}
		if c.broken {
			report.leave(c.Path, c.Conflict)
		} else if c.Before.Kind == Other {
			report.leave(c.Path, "it is not a file, folder or link")
		} else if err := s.reject(ctx, c); err != nil {
			report.leave(c.Path, err.Error())
		} else {
			report.Done = append(report.Done, Outcome{Path: c.Path})
		}
	}
	return report, nil
}

func (s *scan) reject(ctx context.Context, c chosen) error {
	view, want := s.review.View, c.Before
	if c.upper.Kind != Nothing && (want.Kind == Nothing || (want.Kind == Folder) != (c.upper.Kind == Folder)) {
		if err := view.Remove(ctx, c.Path); err != nil {
			return err
		}
	}
	var err error
	switch {
	case want.Kind == Folder && c.upper.Kind == Folder:
		err = view.Chmod(ctx, c.Path, want.Mode)
	case want.Kind == Folder:
		err = view.Mkdir(ctx, c.Path, want.Mode)
	case want.Kind == Symlink:
		err = view.Symlink(ctx, want.Target, c.Path)
	case want.Kind == File:
		err = s.restore(ctx, c)
	}
	if err != nil || want.Kind == Nothing {
		return err
	}
	return s.remember(ctx, c.Path, want, false)
}

// restore writes the real content to the view, or the agent's without some hunks.
func (s *scan) restore(ctx context.Context, c chosen) error {
	if c.hunks != nil {
		return s.review.View.WriteFile(ctx, c.Path, c.upper.Mode, bytes.NewReader(c.part(false)))
	}
	f, err := s.real.open(c.Path, c.real.info)
	if err != nil {
		return err
	}
	defer f.Close()
	return s.review.View.WriteFile(ctx, c.Path, c.Before.Mode, io.LimitReader(f, c.Before.Size))
}
