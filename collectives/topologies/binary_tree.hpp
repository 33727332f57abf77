#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>

namespace weir::collectives {

/// A position's neighbours in a binary tree.
struct TreeNode {
  std::optional<std::uint32_t> parent;
  std::array<std::optional<std::uint32_t>, 2> children;

  bool leaf() const { return !children[0] && !children[1]; }
};

/// The place of `position` among `positions` in the tree in which the lowest bit that is set says the level: odd
/// positions are leaves, and the parent of a position is the nearest one of the next level. Position 0 is the root and
/// has one child. The depth is ceil(log2(positions)).
inline TreeNode tree_node(std::uint32_t position, std::uint32_t positions) {
  TreeNode node;
  if (position == 0) {
    if (positions > 1) node.children[0] = std::bit_floor(positions - 1);
    return node;
  }
  const std::uint32_t level = position & -position;
  const std::uint32_t between = (position ^ level) | (level << 1);
  node.parent = between < positions ? between : position ^ level;
  if (level == 1) return node;
  node.children[0] = position - level / 2;
  // Where the right half is not full, its root is the highest position that is there.
  for (std::uint32_t down = level / 2; down > 0 && !node.children[1]; down /= 2) {
    if (position + down < positions) node.children[1] = position + down;
  }
  return node;
}

}  // namespace weir::collectives
