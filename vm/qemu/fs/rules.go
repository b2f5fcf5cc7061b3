//go:build linux

package fs

import (
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/vm"
)

// rules are the share's subtrees in the form in which requests need them. They
// are read anew whenever the set has changed.
type rules struct {
	root     identity
	folder   *descriptor // of the share
	subtrees *vm.Subtrees
	log      *slog.Logger
	closed   atomic.Bool // the device is closed: count no more

	mu     sync.Mutex
	cur    *ruleset
	usages map[string]*usage // by the subtree's path; they outlive a change of rules
}

// ruleset is one version of the rules. Nodes cache their zone together with
// the ruleset that it comes from.
type ruleset struct {
	version uint64
	root    *zone
}

// zone is what holds for a folder and what is in it.
type zone struct {
	owner fuse.Owner
	usage *usage // of the innermost subtree with limits; nil without

	// A subtree's folder and those above it are fixed: as with mount points,
	// the guest can neither rename nor remove them.
	fixed  bool
	inside *zone            // what holds for the files in it that are in no zone of their own
	named  map[string]*zone // of files in it that are subtrees or lead to one
}

// of returns the zone of a file in a folder of zone z.
func (z *zone) of(name string) *zone {
	if c := z.named[name]; c != nil {
		return c
	}
	return z.inside
}

func newZone(owner fuse.Owner, u *usage) *zone {
	inside := &zone{owner: owner, usage: u}
	inside.inside = inside
	return &zone{owner: owner, usage: u, fixed: true, inside: inside}
}

func (r *rules) init(folder *descriptor, subtrees *vm.Subtrees, log *slog.Logger) {
	r.folder, r.subtrees, r.log = folder, subtrees, log
	r.usages = map[string]*usage{}
	r.current()
}

// current returns the rules as they are now.
func (r *rules) current() *ruleset {
	v := r.subtrees.Version()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cur == nil || r.cur.version != v {
		r.cur = r.compile()
	}
	return r.cur
}

// renew makes every node find its zone again.
func (r *rules) renew() {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := *r.cur
	r.cur = &c
}

// compile turns the list of subtrees into zones. The caller holds r.mu.
func (r *rules) compile() *ruleset {
	list, version := r.subtrees.All()
	root := newZone(fuse.Owner{}, nil)
	limited := map[string]bool{}
	for _, t := range list { // sorted: an outer subtree before those in it
		z := root
		names := strings.Split(t.Path, "/")
		for i, name := range names {
			next := z.named[name]
			if next == nil {
				next = newZone(z.inside.owner, z.inside.usage)
				if z.named == nil {
					z.named = map[string]*zone{}
				}
				z.named[name] = next
			}
			if z = next; i < len(names)-1 {
				continue
			}
			u := z.usage
			if t.MaxBytes > 0 || t.MaxFiles > 0 {
				limited[t.Path] = true
				if u = r.usages[t.Path]; u == nil {
					u = newUsage(r, t.Path)
					r.usages[t.Path] = u
				}
				u.limit(t.MaxBytes, t.MaxFiles)
			}
			z.owner, z.usage = fuse.Owner{Uid: t.UID, Gid: t.GID}, u
			z.inside.owner, z.inside.usage = z.owner, u
		}
	}
	for path := range r.usages {
		if !limited[path] {
			delete(r.usages, path)
		}
	}
	return &ruleset{version, root}
}

// limitedBelow lists the subtrees with limits inside path; they count for
// themselves.
func (r *rules) limitedBelow(path string) map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	below := map[string]bool{}
	for p := range r.usages {
		if strings.HasPrefix(p, path+"/") {
			below[p] = true
		}
	}
	return below
}

// zone returns the zone of a node.
func (s *session) zone(n *node) *zone {
	rules := s.dev.rules.current()
	s.mu.Lock()
	defer s.mu.Unlock()
	return zoneLocked(n, rules, maxDepth)
}

// zoneLocked is zone. Renames can make nodes too deep, and on the host even a
// circle of what the guest remembers: then what held before still holds.
func zoneLocked(n *node, rules *ruleset, depth int) *zone {
	switch {
	case n.isRoot():
		return rules.root
	case depth == 0:
		if n.zone == nil {
			return rules.root
		}
		return n.zone
	case n.rules != rules:
		n.zone, n.rules = zoneLocked(n.parent, rules, depth-1).of(n.name), rules
	}
	return n.zone
}

// owner returns whom a file is shown to belong to.
func (s *session) owner(z *zone, caller *fuse.Caller) fuse.Owner {
	if s.policy != vm.OwnershipSubtree {
		return caller.Owner
	}
	return z.owner
}

// mayMove reports whether a file may go from one zone to another, as the kernel
// decides it for project quotas: what counts differently must be copied.
func mayMove(from, to *zone) error {
	switch {
	case from.fixed || to.fixed:
		return unix.EBUSY
	case from.usage != to.usage:
		return unix.EXDEV
	}
	return nil
}

// mayLink reports whether one file may have a name in both zones.
func mayLink(from, to *zone) error {
	if from.usage != to.usage || from.owner != to.owner {
		return unix.EXDEV
	}
	return nil
}
