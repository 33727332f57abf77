#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "training/exchange/coded_round.hpp"
#include "training/exchange/entry_sum.hpp"
#include "training/exchange/kept_threshold.hpp"
#include "training/exchange/regions.hpp"

namespace weir::training {

/// A round of the sparse all-reduce of Ok-Topk (Li and Hoefler, PPoPP 2022), for compressors that choose entries
/// (Traits::selects). Every rank owns a region of the bucket's entries (Regions). A rank chooses entries of whole
/// tensors and sends those of each region to its owner, no more than allowance() says, the largest first. The owner
/// adds them up in rank order and sends all ranks the sums that reach the threshold of the tensor (KeptThreshold),
/// again no more than allowance() says. That is the mean.
///
/// An entry counts as sent, for the memory of a rank, if the rank has sent it and it is in the mean. Everything else
/// stays with the ranks. What a value codec changes on the way back counts as sent by the owner.
///
/// A message has a part for each tensor of which there are entries in the region (Compressor::write_part). Before them
/// come counts (compressors::Format::counts): to the owner, how many entries this rank has chosen in the whole bucket
/// and in each part; from the owner, how many all ranks have chosen in each part.
class SplitRound final : public CodedRound {
 public:
  SplitRound(const RoundSetting& setting, const Bucket& bucket);

  std::span<const BytesView> outgoing() override { return outgoing_; }
  Result<void> combine() override;
  Result<void> encode_combined() override;
  BytesView combined() const override { return combined_; }

  void save(std::vector<NamedTensor>& state) const override;
  Result<void> restore(std::span<const NamedTensor> state) override;

 private:
  /// The entries of a tensor that lie in a region.
  struct Part {
    std::size_t coded = 0;  ///< index in parameters_
    std::uint32_t first = 0;
    std::uint32_t entries = 0;
    std::uint64_t chosen = 0;  ///< of them, by this rank; later by all
  };

  Result<void> encode_compensated(std::uint32_t pass) override;
  void lay_out_parts();
  void encode_region(std::uint32_t owner);
  void move_part(const Part& part, std::uint64_t count, compressors::Selection& to);

  Result<void> read_counts_of_ranks();
  Result<void> add_up(std::size_t index);
  Result<void> read_part_of(std::uint32_t rank, std::size_t index);
  Result<void> read_part(std::uint32_t rank, const Part& part, std::uint64_t most);
  void drop_small(const Part& part, compressors::Selection& sums) const;
  void encode_sums(const Part& part, compressors::Selection& sums);

  Result<void> decode_gathered(std::uint32_t pass) override;
  Result<void> read_counts_of_owner(std::uint32_t owner);
  Result<void> decode_tensor(std::size_t coded);
  Result<void> put_sums(Mean& mean);
  Result<void> take_sums(std::uint32_t owner, const Part& part, const compressors::Selection*& sums);
  std::uint64_t turn_of(std::uint32_t rank, std::uint32_t owner) const { return rank + owner + step_.number; }
  std::span<Part> parts_of(std::uint32_t owner);
  const std::string& name_of(std::size_t piece) const { return setting_.parameters[pieces_[piece].parameter].name; }
  std::uint64_t first_entry(std::size_t coded) const { return piece_begins_[coded_pieces_[coded].piece]; }

  std::vector<std::uint64_t> piece_begins_;  ///< by piece: its first entry in the bucket
  Regions regions_;
  std::vector<KeptThreshold> thresholds_;  ///< by piece
  EntrySum sum_;

  // Of this step.
  std::vector<Part> parts_;               ///< owner by owner
  std::vector<std::size_t> part_ends_;    ///< by owner
  std::vector<std::uint64_t> chosen_;     ///< by rank, in the whole bucket
  std::vector<std::size_t> read_;         ///< by tensor: how many of own_entries_ have been put into parts
  std::vector<std::size_t> kept_;         ///< by tensor: how many of them have been sent, and so stay there
  std::vector<std::size_t> bytes_;        ///< by tensor, of what is sent to owners
  std::vector<Bytes> messages_;           ///< by owner
  std::vector<BytesView> outgoing_;       ///< by owner
  std::vector<std::uint64_t> announced_;  ///< by rank, then by part of the own region: how many it has chosen
  std::uint64_t chosen_by_all_ = 0;
  std::vector<std::uint64_t> received_;              ///< by rank: entries
  std::vector<compressors::Selection> own_;          ///< by part of the own region: what this rank has there
  std::vector<compressors::Selection> sums_;         ///< by part of the own region: what goes back
  std::vector<compressors::Selection> corrections_;  ///< by tensor
  Bytes combined_;
  std::vector<std::size_t> next_part_;  ///< by owner
  compressors::Selection mean_;         ///< of one tensor

  // Kept to reuse their memory.
  std::vector<std::uint64_t> counts_;
  std::vector<std::uint64_t> weights_;
  std::vector<std::uint64_t> shares_;
  std::vector<float> exact_;
};

}  // namespace weir::training
