// Package fs is a virtio-fs device served by this process: it shows one folder
// of the host to a guest, and nothing else of the host.
//
// go-fuse speaks the FUSE protocol ([fuse.ProtocolServer]); this package checks
// each request before go-fuse sees it (request.go), carries it between the
// virtqueue and go-fuse (device.go), and is the file system behind it
// (session.go and the files after it).
//
// # Where a request can reach
//
// A node is what the guest's kernel knows a file by. Here it is a place (the
// parent's node and a name) and an identity (device, inode number, time of
// birth), not a descriptor: a guest may know millions of files, and only
// folders in use and open files cost descriptors. Every name is one component,
// resolved below its parent's descriptor without following a link, and what is
// found there must have the node's identity; otherwise the node is stale
// (ESTALE) and the guest looks it up again. A folder's place is checked again
// once a second, so a folder that the host's user moves out of the share is out
// of the guest's reach within that time. A file that is already open stays
// open, as it does for any program.
//
// Only regular files, folders and symbolic links exist for the guest: the host's
// sockets, pipes and devices are not shown, and none can be made. Symbolic
// links are the guest's to follow.
//
// # Owners and modes
//
// On disk everything belongs to the user who runs this process. What the guest
// is shown is the share's policy ([vm.Ownership]). Changing the owner to the
// one shown is accepted and does nothing, any other change is refused with
// EPERM. The set-user-ID and set-group-ID bits are neither stored on the host
// nor shown to the guest. The guest's kernel checks permissions against the
// owner and mode it is shown; the host's kernel then checks what this process
// does. So a file that the host's user may not read cannot be read by the
// guest's root either. Under the policy of everybody the guest is shown the owner's permissions for
// all, and no sticky bit; a mode that it sets reaches the host but for new permissions of the group and
// others to write.
//
// # What is fresh
//
// A change made on the host is seen in the guest within a second of it under
// the subtree policy, and at the next look-up or open under the others,
// which must not let one user see what was computed for another. The guest's
// own changes are written through: its write(2) returns when the host's kernel
// has the bytes, and fails then if the quota or the disk is full. Where the share's
// own folder lies on a network, that may come with its close(2); not so where only
// something in it does. fsync reaches
// the host's disk; sync(2) and syncfs(2) in the guest do not. Locks are kept by
// the guest's kernel: they hold between the guest's programs, not between guest
// and host.
package fs
