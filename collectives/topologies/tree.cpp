#include "collectives/topologies/tree.hpp"

#include <array>
#include <bit>
#include <optional>

#include "collectives/receivers.hpp"
#include "collectives/topologies/binary_tree.hpp"

namespace weir::collectives {
namespace {

/// A rank's neighbours in tree 0 or 1. The second is the first with the ranks in another order, in which leaves and
/// inner nodes change places: mirrored for an even number of ranks, shifted by one for an odd one.
TreeNode node_of(std::uint32_t tree, std::uint32_t rank, std::uint32_t ranks) {
  if (tree == 0) return tree_node(rank, ranks);
  const bool mirrored = ranks % 2 == 0;
  const auto rank_at = [&](std::optional<std::uint32_t> position) -> std::optional<std::uint32_t> {
    if (!position) return std::nullopt;
    return mirrored ? ranks - 1 - *position : (*position + 1) % ranks;
  };
  TreeNode node = tree_node(mirrored ? ranks - 1 - rank : (rank + ranks - 1) % ranks, ranks);
  node.parent = rank_at(node.parent);
  for (auto& child : node.children) child = rank_at(child);
  return node;
}

/// One rank's messages in one tree. All of them are there from the beginning, so that both ends of a link have them in
/// the same order: first everything that goes up.
struct Branch {
  TreeNode node;
  Buffer values;
  std::optional<Send> up;
  std::array<std::optional<Send>, 2> down;
  std::array<std::optional<Combiner>, 2> combiners;
  std::array<std::optional<Receive>, 2> from_children;
  std::optional<Filler> filler;
  std::optional<Receive> from_parent;
};

constexpr std::uint32_t part_up(std::uint32_t tree) { return tree; }
constexpr std::uint32_t part_down(std::uint32_t tree) { return 2 + tree; }

}  // namespace

Task<> Tree::combine_all(Buffer values, ReduceOp op, Subject about) {
  if (ranks() == 1) co_return Result<void>();
  std::array<Branch, 2> trees;
  const auto part = [&](std::uint32_t number) {
    return Subject{.version = about.version, .bucket = about.bucket, .part = about.part + number};
  };
  for (std::uint32_t t = 0; t < 2; ++t) {
    Branch& tree = trees[t];
    tree.node = node_of(t, rank(), ranks());
    tree.values = chunk_of(values, 2, t);
    if (tree.node.parent) {
      tree.up.emplace(group_, *tree.node.parent, part(part_up(t)), tree.values,
                      tree.node.leaf() ? tree.values.bytes.size() : 0);
    }
  }
  for (std::uint32_t t = 0; t < 2; ++t) {
    Branch& tree = trees[t];
    for (std::size_t c = 0; c < 2; ++c) {
      if (tree.node.children[c])
        tree.down[c].emplace(group_, *tree.node.children[c], part(part_down(t)), tree.values, 0);
    }
  }
  for (std::uint32_t t = 0; t < 2; ++t) {
    Branch& tree = trees[t];
    // The result of the root goes down as soon as it is there.
    Onward combined{.sends = {tree.up        ? &*tree.up
                              : tree.down[0] ? &*tree.down[0]
                                             : nullptr,
                              !tree.up && tree.down[1] ? &*tree.down[1] : nullptr}};
    // The last child first: it waits for the one before it, so that the order of the additions is always the same.
    for (std::size_t c = 2; c-- > 0;) {
      if (!tree.node.children[c]) continue;
      tree.combiners[c].emplace(op, values.element, tree.values.bytes, combined);
      tree.from_children[c].emplace(group_, *tree.node.children[c], part(part_up(t)), *tree.combiners[c],
                                    c == 0 ? Receive::everything : 0);
      combined = {.follower = &*tree.from_children[c]};
    }
  }
  for (std::uint32_t t = 0; t < 2; ++t) {
    Branch& tree = trees[t];
    if (!tree.node.parent) continue;
    tree.filler.emplace(tree.values.bytes, Onward{.sends = {tree.down[0] ? &*tree.down[0] : nullptr,
                                                            tree.down[1] ? &*tree.down[1] : nullptr}});
    tree.from_parent.emplace(group_, *tree.node.parent, part(part_down(t)), *tree.filler);
  }
  for (Branch& tree : trees) {
    for (auto& arrival : tree.from_children) {
      if (!arrival) continue;
      if (auto done = co_await *arrival; !done) co_return done.error();
    }
    if (tree.from_parent) {
      if (auto done = co_await *tree.from_parent; !done) co_return done.error();
    }
    if (tree.up) {
      if (auto done = co_await *tree.up; !done) co_return done.error();
    }
    for (auto& sent : tree.down) {
      if (!sent) continue;
      if (auto done = co_await *sent; !done) co_return done.error();
    }
  }
  co_return Result<void>();
}

Cost Tree::all_reduce_cost(std::uint32_t ranks, double bytes) {
  if (ranks == 1) return {};
  const double depth = std::bit_width(ranks - 1);
  return {.alpha = 2 * depth, .beta = 2 * bytes, .gamma = bytes};
}

}  // namespace weir::collectives
