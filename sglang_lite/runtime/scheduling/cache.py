"""Who owns each KV page. The only file that moves a page from one owner to another.

A page is free, or in the tree, or in exactly one lease. A lease's `table` says where a request's
positions lie:

    table   [ tree pages, pinned through `node` | own pages, written by this request alone ]
             <---------- shared ---------------> <------------ count - shared ------------>

Own pages move into the tree when the batch that fills them is planned (`publish`): every layer
writes a batch's KV before it attends and batches run in order, so a page may be read by any row
of the same or a later batch. Positions below `foreign` are computed by other requests; when such
a token must run again, for its logits, its KV is not written a second time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sglang_lite.runtime.scheduling.batch import Int
from sglang_lite.runtime.scheduling.node import Node
from sglang_lite.runtime.scheduling.radix import EMPTY, Match, RadixTree
from sglang_lite.runtime.scheduling.retention import Retention, RetentionLimits


@dataclass(slots=True, eq=False)
class Lease:
    """The pages one request may use."""

    namespace: str
    node: Node  # the deepest pinned node
    table: Int = field(default_factory=lambda: np.empty(16, np.int32))
    count: int = 0  # pages in `table`
    shared: int = 0  # of these, the leading ones that belong to the tree
    foreign: int = 0  # leading tokens whose KV others compute

    @property
    def pages(self) -> Int:
        return self.table[: self.count]

    def put(self, at: int, pages: Int) -> None:
        """Write `pages` into the table from index `at` on."""
        end = at + len(pages)
        if end > len(self.table):
            table = np.empty(max(end, 2 * len(self.table)), np.int32)
            table[: self.count] = self.pages
            self.table = table
        self.table[at:end] = pages
        self.count = max(self.count, end)


class PrefixCache:
    """Hands out leases on pages 1 to `num_pages`; page 0 belongs to nobody.

    Args:
        enabled: whether a request may read what another has computed.
        whole_only: what a table of sequences could do in place of a tree, for comparisons: a text
            can be found when its request has left, and only as a whole.
    """

    def __init__(
        self,
        num_pages: int,
        page_size: int,
        *,
        enabled: bool = True,
        whole_only: bool = False,
        retention: RetentionLimits | None = None,
    ) -> None:
        self.num_pages, self.page_size = num_pages, page_size
        self.enabled, self.whole_only = enabled, whole_only
        self.tree = RadixTree(page_size)
        self.retention = Retention(self.tree, num_pages, retention or RetentionLimits())
        self.free: list[int] = list(range(num_pages, 0, -1))
        self.leases: set[Lease] = set()
        self._sources: list[Node] = []  # pinned until `settle`: pages that this plan copies from
        self._copied: dict[int, int] = {}  # slot -> the slot it is copied from, in this plan

    @property
    def available(self) -> int:
        """Pages that can be had now: free ones, and those the tree can forget."""
        return len(self.free) + self.tree.evictable

    def peek(self, tokens: Int, namespace: str) -> int:
        """How many leading tokens are cached in whole pages. Changes nothing."""
        if not self.enabled:
            return 0
        return self._match(tokens, namespace, self.tree.root).pages * self.page_size

    # -------------------------------------------------------------- a lease's life

    def acquire(self, tokens: Int, namespace: str = "") -> Lease:
        """A lease on the longest cached prefix of `tokens`."""
        lease = Lease(namespace, self.tree.root)
        self.leases.add(lease)
        self.advance(lease, tokens)
        return lease

    def advance(self, lease: Lease, tokens: Int) -> int:
        """Take over what others have published of `tokens` since; return the cached tokens."""
        if self.enabled:
            rest = tokens[lease.shared * self.page_size :]
            match = self._match(rest, lease.namespace, lease.node)
            if match.pages:
                self._adopt(lease, match)
        return lease.foreign

    def extend(self, lease: Lease, pages: int) -> bool:
        """Add `pages` fresh pages, evicting if needed; if there are not enough, add none."""
        if pages > len(self.free):
            if pages > self.available:
                return False
            self.free += self.tree.evict(pages - len(self.free)).tolist()
        if pages > 0:
            fresh = self.free[-pages:]
            del self.free[-pages:]
            lease.put(lease.count, np.array(fresh, np.int32))
        return True

    def borrow(self, lease: Lease, tokens: Int, computed: int) -> tuple[Int, Int]:
        """KV slots to copy so that a partly equal page of another request serves this one.

        `tokens` are those wanted, `computed` how many the lease holds already. The page they end
        in must be in the lease, as its own. Returns (from, to), empty when nothing is gained.
        """
        size, first = self.page_size, lease.shared * self.page_size
        if not self.enabled or self.whole_only or lease.count <= lease.shared:
            return EMPTY, EMPTY
        end = Match(lease.node, len(lease.node.pages), 0)
        found = self.tree.overlap(end, tokens[first : first + size], lease.namespace)
        skip = max(0, computed - first)
        if found is None or found.length <= skip:
            return EMPTY, EMPTY
        # The source may not be evicted and filled anew before this plan's batch is launched.
        self._sources.append(self.tree.pin(Match(found.node, len(found.node.pages), 0)))
        offsets = np.arange(skip, found.length, dtype=np.int32)
        sources = (found.page * size + offsets).tolist()
        source = np.array([self._copied.get(slot, slot) for slot in sources], np.int32)
        target = int(lease.table[lease.shared]) * size + offsets
        self._copied.update(zip(target.tolist(), source.tolist(), strict=True))
        return source, target

    def publish(self, lease: Lease, tokens: Int, seq: int, *, leaving: bool = False) -> None:
        """Let others read the whole pages that `tokens` fill, batch `seq` the last to write them.

        A page that the tree holds already is read from there, and the lease's own is given back.
        """
        if not self.enabled or (self.whole_only and not leaving):
            return
        end = len(tokens) // self.page_size
        while lease.shared < min(end, lease.count):
            rest = tokens[lease.shared * self.page_size : end * self.page_size]
            match = self.tree.match(rest, lease.namespace, below=lease.node)
            if match.pages:
                self._adopt(lease, match)
                continue
            pages = lease.table[lease.shared : end]
            lease.node = self.tree.grow(lease.node, rest, pages, seq, lease.namespace)
            lease.shared = end
        lease.node.whole = self.whole_only

    def release(self, lease: Lease) -> None:
        """End a lease; what it published stays cached. A second call does nothing."""
        if lease not in self.leases:
            return
        self.leases.remove(lease)
        self.free += lease.table[lease.shared : lease.count].tolist()
        self.tree.unpin(lease.node)
        lease.node, lease.count, lease.shared, lease.foreign = self.tree.root, 0, 0, 0

    # -------------------------------------------------------------- the whole

    def settle(self) -> None:
        """The plan is made: its copies are in the batch, their sources need no more protection."""
        for node in self._sources:
            self.tree.unpin(node)
        self._sources.clear()
        self._copied.clear()

    def drop(self, since: int) -> None:
        """Forget what batch `since` and later ones were to fill. No lease may read it any more."""
        self.free += self.tree.drop(since).tolist()

    def flush(self) -> None:
        """Forget every page that no lease reads."""
        self.free += self.tree.evict(self.tree.size).tolist()

    def stats(self) -> dict[str, int]:
        """How many pages there are, and who owns them."""
        return {
            "page_size": self.page_size,
            "pages_total": self.num_pages,
            "pages_free": len(self.free),
            "pages_cached": self.tree.evictable,
            "pages_shared": self.tree.size - self.tree.evictable,
            "pages_leased": sum(each.count - each.shared for each in self.leases),
            "pages_retained": self.tree.retained,
        }

    def check(self) -> None:
        """Raise AssertionError unless each page has one owner and each pin a lease behind it."""
        self.tree.check()
        self.retention.check()
        pages, pinned = [np.array(self.free, np.int32)], 0
        for node in self.tree:
            pages.append(node.pages)
            pinned += node.pins * len(node.pages)
        for lease in self.leases:
            pages.append(lease.table[lease.shared : lease.count])
            pinned -= lease.shared
            path = [node.pages for node in lease.node.ancestry()]
            shared = np.concatenate([EMPTY, *path[::-1]])
            assert np.array_equal(shared, lease.table[: lease.shared]), "a stale page table"
        owned = np.sort(np.concatenate(pages))
        everything = np.arange(1, self.num_pages + 1)
        assert np.array_equal(owned, everything), "a page is lost or owned twice"
        assert pinned == 0 or self._sources, "a pin without a lease"

    def _match(self, tokens: Int, namespace: str, below: Node) -> Match:
        """The longest cached prefix that may be read of what follows `below`."""
        match = self.tree.match(tokens, namespace, below=below)
        node, depth, pages = match
        while self.whole_only and node is not below:
            if node.whole and depth == len(node.pages):
                break
            pages -= depth
            assert node.parent is not None
            node = node.parent
            depth = len(node.pages)
        return Match(node, depth, pages)

    def _adopt(self, lease: Lease, match: Match) -> None:
        """Read `match`, which lies below the lease's node, in place of own pages, if any."""
        old, first = lease.node, lease.shared
        lease.node = self.tree.pin(match)
        self.tree.unpin(old)
        runs, missing = [], match.pages
        for node in lease.node.ancestry():
            if missing <= 0:
                break
            runs.append(node.pages)
            missing -= len(node.pages)
        given_back = lease.table[first : min(lease.count, first + match.pages)]
        self.free += given_back.tolist()
        lease.put(first, np.concatenate(runs[::-1]))
        lease.shared = first + match.pages
        lease.foreign = max(lease.foreign, lease.shared * self.page_size)
