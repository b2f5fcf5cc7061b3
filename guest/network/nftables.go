//go:build linux

package network

import (
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// table is the nftables table for all rooms. Its rules match the prefix of cable names, so they are
// loaded once.
const table = "rooms"

// Hooks and chain priorities from linux/netfilter.h.
const (
	hookInput, hookForward, hookPostrouting = 1, 2, 4

	priorityFilter, priorityNAT = 0, 100

	verdictDrop, verdictAccept = 0, 1

	established = 1<<1 | 1<<2 // "ct state established,related"
)

// firewall loads these rules unless they are loaded already:
//
//	table inet rooms {
//		set connections { type iface_index; size 4096; flags dynamic; }
//		chain forward { type filter hook forward priority 0; policy drop;
//			iifname "room*" ct state new add @connections { iif ct count over 4096 } drop
//			iifname "room*" oifname != "room*" accept
//			oifname "room*" ct state established,related accept }
//		chain input { type filter hook input priority 0; policy accept;
//			iifname "room*" drop }
//		chain way-out { type nat hook postrouting priority 100;
//			ip saddr 198.18.0.0/15 oifname != "room*" masquerade }
//	}
//
// A room can reach what the guest can reach, except what fence blocks. It cannot reach the guest or
// another room.
func firewall() error {
	n, err := openNetlink(unix.NETLINK_NETFILTER)
	if err != nil {
		return err
	}
	defer n.close()
	isCable, isOther := uint32(unix.NFT_CMP_EQ), uint32(unix.NFT_CMP_NEQ)
	err = n.do(
		edge(unix.NFNL_MSG_BATCH_BEGIN),
		newTable(),
		newCounts(),
		newChain("forward", "filter", hookForward, priorityFilter, verdictDrop),
		newChain("input", "filter", hookInput, priorityFilter, verdictAccept),
		newChain("way-out", "nat", hookPostrouting, priorityNAT, verdictAccept),
		newRule("forward", device(unix.NFT_META_IIFNAME, isCable), connection(starting), overcrowded(), verdict(verdictDrop)),
		newRule("forward", device(unix.NFT_META_IIFNAME, isCable), device(unix.NFT_META_OIFNAME, isOther), verdict(verdictAccept)),
		newRule("forward", device(unix.NFT_META_OIFNAME, isCable), connection(established), verdict(verdictAccept)),
		newRule("input", device(unix.NFT_META_IIFNAME, isCable), verdict(verdictDrop)),
		newRule("way-out", fromRooms(), device(unix.NFT_META_OIFNAME, isOther), masquerade()),
		edge(unix.NFNL_MSG_BATCH_END),
	)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return growTable() // retried in case an earlier call failed here
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

func newChain(name, kind string, hook, priority, policy uint32) message {
	m := nftMessage(unix.NFT_MSG_NEWCHAIN, 0)
	m.text(unix.NFTA_CHAIN_TABLE, table)
	m.text(unix.NFTA_CHAIN_NAME, name)
	m.nest(unix.NFTA_CHAIN_HOOK, func() {
		m.network(unix.NFTA_HOOK_HOOKNUM, hook)
		m.network(unix.NFTA_HOOK_PRIORITY, priority)
	})
	m.network(unix.NFTA_CHAIN_POLICY, policy)
	m.text(unix.NFTA_CHAIN_TYPE, kind)
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

// compare ends the rule unless the register equals with, or differs from it, depending on how.
func (m *message) compare(how uint32, with []byte) {
	m.one("cmp", func() {
		m.network(unix.NFTA_CMP_SREG, unix.NFT_REG_1)
		m.network(unix.NFTA_CMP_OP, how)
		m.nest(unix.NFTA_CMP_DATA, func() { m.attribute(unix.NFTA_DATA_VALUE, with) })
	})
}

// mask clears all bits of the register except bits.
func (m *message) mask(bits []byte) {
	m.one("bitwise", func() {
		m.network(unix.NFTA_BITWISE_SREG, unix.NFT_REG_1)
		m.network(unix.NFTA_BITWISE_DREG, unix.NFT_REG_1)
		m.network(unix.NFTA_BITWISE_LEN, uint32(len(bits)))
		m.nest(unix.NFTA_BITWISE_MASK, func() { m.attribute(unix.NFTA_DATA_VALUE, bits) })
		m.nest(unix.NFTA_BITWISE_XOR, func() { m.attribute(unix.NFTA_DATA_VALUE, make([]byte, len(bits))) })
	})
}

// device matches packets that come from or go to a cable, or others, depending on key and how.
func device(key, how uint32) expression {
	return func(m *message) {
		m.one("meta", func() {
			m.network(unix.NFTA_META_DREG, unix.NFT_REG_1)
			m.network(unix.NFTA_META_KEY, key)
		})
		m.compare(how, []byte(cablePrefix)) // compares the name's prefix
	}
}

func connection(states uint32) expression {
	return func(m *message) {
		m.one("ct", func() {
			m.network(unix.NFTA_CT_DREG, unix.NFT_REG_1)
			m.network(unix.NFTA_CT_KEY, unix.NFT_CT_STATE)
		})
		m.mask(native.AppendUint32(nil, states))
		m.compare(unix.NFT_CMP_NEQ, make([]byte, 4))
	}
}

// fromRooms matches packets with the source address of a room.
func fromRooms() expression {
	const sourceOffset, sourceSize = 12, 4 // in the IPv4 header
	return func(m *message) {
		m.one("meta", func() {
			m.network(unix.NFTA_META_DREG, unix.NFT_REG_1)
			m.network(unix.NFTA_META_KEY, unix.NFT_META_NFPROTO)
		})
		m.compare(unix.NFT_CMP_EQ, []byte{unix.NFPROTO_IPV4})
		m.one("payload", func() {
			m.network(unix.NFTA_PAYLOAD_DREG, unix.NFT_REG_1)
			m.network(unix.NFTA_PAYLOAD_BASE, unix.NFT_PAYLOAD_NETWORK_HEADER)
			m.network(unix.NFTA_PAYLOAD_OFFSET, sourceOffset)
			m.network(unix.NFTA_PAYLOAD_LEN, sourceSize)
		})
		m.mask([]byte{255, 254, 0, 0})
		m.compare(unix.NFT_CMP_EQ, []byte{198, 18, 0, 0})
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

func masquerade() expression {
	return func(m *message) { m.one("masq", func() {}) }
}

// The kernel tracks all connections of the guest in one table and drops new ones when the table is
// full.
const (
	// maxConnections bounds the connections of one room: enough for a crawler, and a small part of
	// the table.
	maxConnections = 4 << 10
	// tableSize is enough for sixteen rooms at their limit. A full table takes some 20 MB.
	tableSize = 16 * maxConnections
)

// growTable raises the size of the kernel's connection table to tableSize.
func growTable() error {
	const path = "/proc/sys/net/netfilter/nf_conntrack_max"
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if now, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && now >= tableSize {
		return nil
	}
	return os.WriteFile(path, []byte(strconv.Itoa(tableSize)), 0)
}

// From linux/netfilter/nf_tables.h.
const (
	connlimitCount, connlimitFlags = 1, 2 // NFTA_CONNLIMIT_*
	connlimitOver                  = 1    // NFT_CONNLIMIT_F_INV

	starting = 1 << 3 // "ct state new"
)

// counts is the set that counts connections by cable.
const counts = "connections"

func newCounts() message {
	const keyType, keyLen, id = 4, 4, 1 // ids are local to the batch
	m := nftMessage(unix.NFT_MSG_NEWSET, 0)
	m.text(unix.NFTA_SET_TABLE, table)
	m.text(unix.NFTA_SET_NAME, counts)
	m.network(unix.NFTA_SET_FLAGS, unix.NFT_SET_EVAL)
	m.network(unix.NFTA_SET_KEY_TYPE, keyType)
	m.network(unix.NFTA_SET_KEY_LEN, keyLen)
	m.network(unix.NFTA_SET_ID, id)
	m.nest(unix.NFTA_SET_DESC, func() { m.network(unix.NFTA_SET_DESC_SIZE, MaxRooms) })
	return m
}

// overcrowded matches new connections from a cable that has too many.
func overcrowded() expression {
	return func(m *message) {
		m.one("meta", func() {
			m.network(unix.NFTA_META_DREG, unix.NFT_REG_1)
			m.network(unix.NFTA_META_KEY, unix.NFT_META_IIF)
		})
		m.one("dynset", func() {
			m.text(unix.NFTA_DYNSET_SET_NAME, counts)
			m.network(unix.NFTA_DYNSET_OP, unix.NFT_DYNSET_OP_ADD)
			m.network(unix.NFTA_DYNSET_SREG_KEY, unix.NFT_REG_1)
			m.nest(unix.NFTA_DYNSET_EXPR, func() {
				m.text(unix.NFTA_EXPR_NAME, "connlimit")
				m.nest(unix.NFTA_EXPR_DATA, func() {
					m.network(connlimitCount, maxConnections)
					m.network(connlimitFlags, connlimitOver)
				})
			})
		})
	}
}
