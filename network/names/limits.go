package names

import (
	"strings"
	"sync"
	"time"

	"golang.org/x/net/publicsuffix"
	"golang.org/x/time/rate"
)

// A query carries data to the domain's name servers, so new names cost tokens. A name costs
// nameCost and its bytes before the registrable domain; those of labels over longLabel count four
// times. A tunnel gets about 70 bytes a second; a build asks one domain for some ten names.
const (
	nameCost    = 16
	longLabel   = 32
	domainRate  = 4096.0 / 60 // tokens a second, for one agent and domain
	domainBurst = 16384
	maxDomains  = 512 // domains of one agent whose tokens are not all there

	// nameRate bounds all new names of an agent, also of names that are refused and of domains
	// that cost nothing to have.
	nameRate  = 50 // names a second
	nameBurst = 3000
)

// Budget bounds the new names of an agent and its plugins.
type Budget struct {
	mu      sync.Mutex
	names   *rate.Limiter
	domains map[string]*rate.Limiter
}

// NewBudget returns a full budget.
func NewBudget() *Budget {
	return &Budget{names: rate.NewLimiter(nameRate, nameBurst), domains: map[string]*rate.Limiter{}}
}

// spend takes the cost of a new name, and returns the reason if there are too many. A name that
// does not leave this computer costs its domain nothing.
func (b *Budget) spend(name string, leaves bool) (reason string) {
	if b == nil {
		return "the room was removed"
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.names.Allow() {
		return "too many different names in a short time"
	}
	if !leaves {
		return ""
	}
	domain, cost := price(name)
	l := b.domains[domain]
	if l == nil {
		if len(b.domains) >= maxDomains {
			for d, other := range b.domains {
				if other.Tokens() >= domainBurst { // the same as a new one
					delete(b.domains, d)
				}
			}
		}
		if len(b.domains) >= maxDomains {
			return "names of too many domains in a short time"
		}
		l = rate.NewLimiter(domainRate, domainBurst)
		b.domains[domain] = l
	}
	if l.AllowN(time.Now(), cost) {
		return ""
	}
	return "too many different names of " + domain + " in a short time"
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
