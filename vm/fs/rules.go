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

// rules are the share's subtrees, compiled for requests, again after each change of the set.
type rules struct {
	root     identity
	owner    fuse.Owner  // outside of subtrees
	folder   *descriptor // of the share
	subtrees *vm.Subtrees
	log      *slog.Logger
	closed   atomic.Bool // the device is closed: count no more

	mu     sync.Mutex
	cur    *ruleset
	usages map[string]*usage // by the subtree's path; kept when rules change
}

// ruleset is one version of the rules. Nodes cache their zone with its ruleset.
type ruleset struct {
	list *[]vm.Subtree
	root *zone
}

// zone is the owner and quota of a folder and of the files in it.
type zone struct {
	owner fuse.Owner
	usage *usage // of the innermost subtree with limits, or nil

	// A subtree's folder and the folders above it are fixed: the guest can neither rename nor
	// remove them, as if they were mount points.
	fixed  bool
	inside *zone            // of other files in it
	named  map[string]*zone // of folders in it that are or contain subtrees
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

func (r *rules) init(folder *descriptor, owner fuse.Owner, subtrees *vm.Subtrees, log *slog.Logger) {
	r.owner, r.folder, r.subtrees, r.log = owner, folder, subtrees, log
	r.usages = map[string]*usage{}
	r.current()
}

// current returns the current rules.
func (r *rules) current() *ruleset {
	list := r.subtrees.Load()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cur == nil || r.cur.list != list {
		r.cur = &ruleset{list, r.compile(list)}
	}
	return r.cur
}

// renew makes all nodes look up their zone again.
func (r *rules) renew() {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := *r.cur
	r.cur = &c
}

// compile makes zones of the subtrees and returns the root's. The caller holds r.mu.
func (r *rules) compile(list *[]vm.Subtree) *zone {
	root := newZone(r.owner, nil)
	if list == nil {
		return root
	}
	limited := map[string]bool{}
	for _, t := range *list { // sorted: an outer subtree before those in it
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
				u.limit(t.MaxBytes, t.MaxFiles, t.Recounts)
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
	return root
}

// limitedBelow returns the subtrees with limits below path, which do not count for path.
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

// zoneLocked is zone. After renames on the host, the places of nodes can be too deep or even form a
// circle: then the last zone stays.
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

// owner returns the owner that the guest sees.
func (s *session) owner(z *zone, caller *fuse.Caller) fuse.Owner {
	if s.policy != vm.OwnershipSubtree {
		return caller.Owner
	}
	return z.owner
}

// mayMove returns an error if a file must not move between zones. As with the kernel's project
// quotas, a file that would count elsewhere must be copied.
func mayMove(from, to *zone) error {
	switch {
	case from.fixed || to.fixed:
		return unix.EBUSY
	case from.usage != to.usage:
		return unix.EXDEV
	}
	return nil
}

// mayLink returns an error if a file must not have names in both zones.
func mayLink(from, to *zone) error {
	if from.usage != to.usage || from.owner != to.owner {
		return unix.EXDEV
	}
	return nil
}
