#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/function_ref.hpp"
#include "collectives/collective.hpp"

namespace weir::collectives {

/// For how many ranks a topology works.
enum class GroupSize : std::uint8_t { any, power_of_two };

/// To whom payloads go that cannot be added up.
enum class Gathers : std::uint8_t {
  all,      ///< to all ranks
  owners,   ///< to the owners of shares (Collective::to_owners), who encode their mean again
  regions,  ///< to the owners of regions: they get the entries that compressors have chosen there, and nothing else
  /// To the owners of shares by hops (MultiHop::hop): in each of them two ranks swap what they have of some shares
  /// (Collective::swap), add it up, and encode the sums again.
  partners,
};

/// "owners", as the catalog names it.
std::string_view name_of(Gathers gathers);

/// Operations by messages between the ranks of one lane. What a topology does not do in a way of its own is done here.
/// Besides, each has:
///
///     static constexpr std::string_view name, summary;
///     static constexpr GroupSize group_size;
///     static Cost all_reduce_cost(std::uint32_t ranks, double bytes);
///     static Cost all_gather_cost(std::uint32_t ranks, double bytes);  of payloads of `bytes` bytes each
///
/// and, if gathered payloads do not go to all ranks,
///
///     static constexpr Gathers gathers;
///     static Cost by_owners_cost(std::uint32_t ranks, double bytes);   of payloads of `bytes` bytes for all shares
///
/// and, if some ranks are servers, as many as a job says (TopologyChoice::servers),
///
///     static constexpr std::uint32_t servers_max;
///     static constexpr std::string_view servers_summary;
///
/// and, if most messages go to the next ranks,
///
///     static constexpr std::uint32_t streams_to_neighbours;   as in TopologyType
class Topology : public Collective {
 public:
  /// `group` must outlive it.
  explicit Topology(Communicator& group) : group_(group) {}

  /// Of those that say nothing else: the numbers that all_reduce() takes, and to whom payloads go.
  static constexpr std::array elements = all_elements;
  static constexpr Gathers gathers = Gathers::all;

  /// By combine_all(), in which a mean is a sum of shares, or a sum that is divided afterwards, and a majority a sum of
  /// signs.
  Task<> all_reduce(Buffer values, ReduceOp op, Subject about) final;

  /// Around a ring: P-1 messages of 1/P of the bytes.
  Task<> reduce_scatter(Buffer values, ReduceOp op, Subject about) override;

  /// In ceil(log2(P)) steps for any number of ranks (Bruck et al. 1997): in each step a rank sends all payloads that it
  /// has so far, one message each, to the rank 1, 2, 4, ... places before it. No way moves fewer bytes.
  Task<> all_gather(ConstBuffer own, Gathered& gathered, Subject about) override;
  static Cost all_gather_cost(std::uint32_t ranks, double bytes);

  /// A message from each rank to each other, all at once, beginning with the rank that follows it.
  Task<> all_to_all(std::span<const ConstBuffer> outgoing, Gathered& incoming, Subject about) override;

  /// All ranks are owners. A message to each of them and one from each, all at once.
  std::uint32_t owners() const override { return ranks(); }
  Task<> to_owners(std::span<const BytesView> outgoing, Gathered& incoming, Subject about) override;
  Task<> from_owners(BytesView own, Gathered& gathered, Subject about) override;

  /// Both messages at once.
  Task<> swap(BytesView outgoing, std::uint32_t partner, Gathered& incoming, Subject about) override;

  /// Down a binary tree, piece by piece.
  Task<> broadcast(Buffer values, std::uint32_t root, Subject about) override;

  // The parts of a reduction between prepare() and conclude() (reduce.hpp).

  /// Combines `values` over all ranks.
  virtual Task<> combine_all(Buffer values, ReduceOp op, Subject about) = 0;

  /// Combines `values` over all ranks into those of rank `root`, up a binary tree, piece by piece. The values of other
  /// ranks are unspecified afterwards.
  Task<> combine_to(Buffer values, std::uint32_t root, ReduceOp op, Subject about);
  /// Of combine_to() and then broadcast(): ceil(log2(P)) levels up and down; a rank with two children has both on its
  /// port.
  static Cost to_root_and_back_cost(std::uint32_t ranks, double bytes);

 protected:
  std::uint32_t rank() const { return group_.rank(); }
  std::uint32_t ranks() const { return group_.size(); }

  /// all_gather() of bundles of payloads, one bundle from each member of `group`: that of member i are those from
  /// number begin_of(i) to before begin_of(i + 1). They are in their places in `gathered`, which has room for those of
  /// all members. Between parts about.part and about.part + begin_of(group.size()).
  static Task<> gather_bundles(Communicator& group, Gathered& gathered,
                               FunctionRef<std::uint32_t(std::uint32_t)> begin_of, Subject about);

  /// Checks the own payload's length and puts it into its place among the others. Fails with: invalid_argument.
  Result<void> keep_own(BytesView own, Gathered& gathered) const;

  Communicator& group_;

 private:
  Result<void> expect_within_limit(BytesView own, const Gathered& gathered) const;
  Result<void> expect_countable(ReduceOp op, Element element) const;
  Task<> send_payloads(FunctionRef<ConstBuffer(std::uint32_t)> payload, std::uint32_t receivers, Gathered& incoming,
                       Subject about);
};

}  // namespace weir::collectives
