//go:build linux

package room

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// The guest's kernel remembers all connections in one table, and those that are new
// when it is full go nowhere, whoever wants them.
const (
	// maxConnections is how many of them one room may have: a crawler of some size, and
	// a small part of the table. What would be one more is dropped.
	maxConnections = 4 << 10
	// tableSize is how many the table holds at least: those of sixteen rooms that are
	// full. All of it is some 20 MB, and only while it is used.
	tableSize = 16 * maxConnections
)

// growTable makes the kernel's table of connections as large as that. In a guest with
// much memory it is larger.
func growTable() error {
	const path = "/proc/sys/net/netfilter/nf_conntrack_max"
	if group("/proc/sys/net/netfilter").number("nf_conntrack_max") >= tableSize {
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
	m.nest(unix.NFTA_SET_DESC, func() { m.network(unix.NFTA_SET_DESC_SIZE, maxSlots) })
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
