//go:build linux

package network

import (
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// table holds the rules of all rooms. They match the prefix of cables' names, so they are loaded once.
const table = "rooms"

// Of linux/netfilter.h: numbers of hooks, and the priorities of chains.
const (
	hookInput, hookForward, hookPostrouting = 1, 2, 4

	priorityFilter, priorityNAT = 0, 100

	verdictDrop, verdictAccept = 0, 1

	established = 1<<1 | 1<<2 // and related, as the key "state" of conntrack has them
)

// firewall loads the rules, if they are not there:
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
// So a room reaches what the guest reaches, except what fence denies it, and neither the guest
// nor another room.
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
	return growTable() // an earlier call may have failed here
}

// edge begins or ends a batch, which is taken whole or not at all.
func edge(kind uint16) message {
	// struct nfgenmsg: family, version, and the subsystem in the network's order
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

// expression appends expressions of a rule.
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

// compare goes on with the rule if the register holds that, or something else.
func (m *message) compare(how uint32, with []byte) {
	m.one("cmp", func() {
		m.network(unix.NFTA_CMP_SREG, unix.NFT_REG_1)
		m.network(unix.NFTA_CMP_OP, how)
		m.nest(unix.NFTA_CMP_DATA, func() { m.attribute(unix.NFTA_DATA_VALUE, with) })
	})
}

// mask keeps some bits of the register.
func (m *message) mask(bits []byte) {
	m.one("bitwise", func() {
		m.network(unix.NFTA_BITWISE_SREG, unix.NFT_REG_1)
		m.network(unix.NFTA_BITWISE_DREG, unix.NFT_REG_1)
		m.network(unix.NFTA_BITWISE_LEN, uint32(len(bits)))
		m.nest(unix.NFTA_BITWISE_MASK, func() { m.attribute(unix.NFTA_DATA_VALUE, bits) })
		m.nest(unix.NFTA_BITWISE_XOR, func() { m.attribute(unix.NFTA_DATA_VALUE, make([]byte, len(bits))) })
	})
}

// device is whether a packet comes from or goes to a cable.
func device(key, how uint32) expression {
	return func(m *message) {
		m.one("meta", func() {
			m.network(unix.NFTA_META_DREG, unix.NFT_REG_1)
			m.network(unix.NFTA_META_KEY, key)
		})
		m.compare(how, []byte(cablePrefix)) // the beginning of the name
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

// fromRooms is whether a packet has the address of a room.
func fromRooms() expression {
	const sourceOffset, sourceSize = 12, 4 // in the header of IPv4
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

// The kernel keeps all connections of the guest in one table, and drops new ones when it is full.
const (
	// maxConnections bounds those of one room: enough for a crawler, and a small part of the table.
	maxConnections = 4 << 10
	// tableSize is enough for sixteen rooms at their limit. A full table takes some 20 MB.
	tableSize = 16 * maxConnections
)

// growTable makes the kernel's table of connections that large, unless it is larger already.
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

// Of linux/netfilter/nf_tables.h.
const (
	connlimitCount, connlimitFlags = 1, 2 // NFTA_CONNLIMIT_*
	connlimitOver                  = 1    // NFT_CONNLIMIT_F_INV

	starting = 1 << 3 // a new connection, as the key "state" of conntrack has it
)

// counts is the set that has the connections of each room, by its cable.
const counts = "connections"

func newCounts() message {
	const keyType, keyLen, id = 4, 4, 1 // a number; ids are of this batch alone
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

// overcrowded is whether the cable that a new connection comes from has too many.
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
