package names

import (
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/publicsuffix"
	"golang.org/x/time/rate"
)

// A name carries data out to whoever serves its domain, so new names cost tokens. A name costs
// nameCost and its bytes before the registrable domain; those of labels over longLabel count four
// times. A tunnel gets about 50 bytes a second; a build asks one domain for some ten names.
const (
	nameCost    = 16
	longLabel   = 32
	domainRate  = 4096.0 / 60 // tokens a second, for one subject and domain
	domainBurst = 16384
	maxDomains  = 512 // domains of one subject whose tokens are not all there

	// nameRate bounds all new names of a subject, also of names that are refused and of domains
	// that cost nothing to have.
	nameRate  = 50 // names a second
	nameBurst = 3000
)

// budgets bounds the new names of subjects.
type budgets struct {
	mu       sync.Mutex
	subjects map[netip.Addr]*budget
}

type budget struct {
	names   *rate.Limiter
	domains map[string]*rate.Limiter
}

// spend takes the cost of a new name, and returns the reason if there are too many. A name that
// does not leave this computer costs its domain nothing.
func (b *budgets) spend(who netip.Addr, name string, leaves bool) (reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.subjects[who]
	if s == nil {
		s = &budget{rate.NewLimiter(nameRate, nameBurst), map[string]*rate.Limiter{}}
		b.subjects[who] = s
	}
	if !s.names.Allow() {
		return "too many different names in a short time"
	}
	if !leaves {
		return ""
	}
	domain, cost := price(name)
	l := s.domains[domain]
	if l == nil {
		if len(s.domains) >= maxDomains {
			for d, other := range s.domains {
				if other.Tokens() >= domainBurst { // the same as a new one
					delete(s.domains, d)
				}
			}
		}
		if len(s.domains) >= maxDomains {
			return "names of too many domains in a short time"
		}
		l = rate.NewLimiter(domainRate, domainBurst)
		s.domains[domain] = l
	}
	if l.AllowN(time.Now(), cost) {
		return ""
	}
	return "too many different names of " + domain + " in a short time"
}

// forget drops the budget of a subject that is gone.
func (b *budgets) forget(who netip.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.subjects, who)
}

// price returns the registrable domain of a name and what the name costs it.
func price(name string) (domain string, cost int) {
	domain, err := publicsuffix.EffectiveTLDPlusOne(name)
	if err != nil { // the name is a public suffix
		domain = name
	}
	cost = nameCost
	for label := range strings.SplitSeq(strings.TrimSuffix(name, domain), ".") {
		cost += len(label)
		if len(label) > longLabel {
			cost += 3 * len(label)
		}
	}
	return domain, cost
}
