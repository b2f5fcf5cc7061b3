//go:build linux

package network

import (
	"errors"

	"golang.org/x/sys/unix"
)

// table is the nftables table for all rooms. Its rules match the prefix of cable names, so they are
// loaded once.
const table = "rooms"

// Hooks and verdicts from linux/netfilter.h.
const (
	hookInput, hookForward = 1, 2

	verdictDrop, verdictAccept = 0, 1
)

// firewall loads these rules unless they are loaded already:
//
//	table inet rooms {
//		chain forward { type filter hook forward priority 0; policy drop;
//			iifname "room*" oifname "eth0" accept
//			iifname "eth0" oifname "room*" accept }
//		chain input { type filter hook input priority 0; policy accept;
//			iifname "room*" drop }
//	}
//
// A room can reach the gateway, which lets in what may reach the room. It cannot reach the guest or
// another room. The rules need no module but nf_tables: connections are not tracked.
func firewall() error {
	const from, to = unix.NFT_META_IIFNAME, unix.NFT_META_OIFNAME
	err := send(unix.NETLINK_NETFILTER,
		edge(unix.NFNL_MSG_BATCH_BEGIN),
		newTable(),
		newChain("forward", hookForward, verdictDrop),
		newChain("input", hookInput, verdictAccept),
		newRule("forward", named(from, cablePrefix), named(to, device+"\x00"), verdict(verdictAccept)),
		newRule("forward", named(from, device+"\x00"), named(to, cablePrefix), verdict(verdictAccept)),
		newRule("input", named(from, cablePrefix), verdict(verdictDrop)),
		edge(unix.NFNL_MSG_BATCH_END),
	)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}

// edge returns the message that begins or ends a batch. The kernel applies a batch completely or
// not at all.
func edge(kind uint16) message {
	// struct nfgenmsg: family, version, subsystem (big-endian)
	return message{kind: kind, body: []byte{unix.AF_UNSPEC, 0, 0, unix.NFNL_SUBSYS_NFTABLES}}
}

func nftMessage(kind, flags uint16) message {
	return message{
		kind: unix.NFNL_SUBSYS_NFTABLES<<8 | kind, flags: flags | unix.NLM_F_CREATE | unix.NLM_F_ACK,
		body: []byte{unix.NFPROTO_INET, unix.NFNETLINK_V0, 0, 0},
	}
}

func newTable() message {
	m := nftMessage(unix.NFT_MSG_NEWTABLE, unix.NLM_F_EXCL)
	m.text(unix.NFTA_TABLE_NAME, table)
	return m
}

func newChain(name string, hook, policy uint32) message {
	m := nftMessage(unix.NFT_MSG_NEWCHAIN, 0)
	m.text(unix.NFTA_CHAIN_TABLE, table)
	m.text(unix.NFTA_CHAIN_NAME, name)
	m.nest(unix.NFTA_CHAIN_HOOK, func() {
		m.network(unix.NFTA_HOOK_HOOKNUM, hook)
		m.network(unix.NFTA_HOOK_PRIORITY, 0)
	})
	m.network(unix.NFTA_CHAIN_POLICY, policy)
	m.text(unix.NFTA_CHAIN_TYPE, "filter")
	return m
}

// expression appends one or more expressions to a rule.
type expression func(*message)

func newRule(chain string, list ...expression) message {
	m := nftMessage(unix.NFT_MSG_NEWRULE, unix.NLM_F_APPEND)
	m.text(unix.NFTA_RULE_TABLE, table)
	m.text(unix.NFTA_RULE_CHAIN, chain)
	m.nest(unix.NFTA_RULE_EXPRESSIONS, func() {
		for _, e := range list {
			e(&m)
		}
	})
	return m
}

// one appends one expression.
func (m *message) one(name string, fill func()) {
	m.nest(unix.NFTA_LIST_ELEM, func() {
		m.text(unix.NFTA_EXPR_NAME, name)
		m.nest(unix.NFTA_EXPR_DATA, fill)
	})
}

// named matches packets that come from or go to a device, by the beginning of its name. A name that
// ends in NUL is a whole one.
func named(key uint32, name string) expression {
	return func(m *message) {
		m.one("meta", func() {
			m.network(unix.NFTA_META_DREG, unix.NFT_REG_1)
			m.network(unix.NFTA_META_KEY, key)
		})
		m.one("cmp", func() {
			m.network(unix.NFTA_CMP_SREG, unix.NFT_REG_1)
			m.network(unix.NFTA_CMP_OP, unix.NFT_CMP_EQ)
			m.nest(unix.NFTA_CMP_DATA, func() { m.attribute(unix.NFTA_DATA_VALUE, []byte(name)) })
		})
	}
}

func verdict(code uint32) expression {
	return func(m *message) {
		m.one("immediate", func() {
			m.network(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT)
			m.nest(unix.NFTA_IMMEDIATE_DATA, func() {
				m.nest(unix.NFTA_DATA_VERDICT, func() { m.network(unix.NFTA_VERDICT_CODE, code) })
			})
		})
	}
}
