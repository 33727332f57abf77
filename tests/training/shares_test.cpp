#include "training/exchange/shares.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <vector>

namespace weir::training {
namespace {

using compressors::NamedTensor;

TEST(Shares, HaveEveryRowOnceAndTheOwnersInOrder) {
  const std::vector<std::vector<std::int64_t>> shapes = {{7, 3}, {0}, {}, {1, 1000}, {0, 3}, {500, 2}, {11}, {4, 0}};
  std::vector<NamedTensor> parameters;
  Bucket bucket;
  for (const auto& shape : shapes) {
    bucket.parameters.push_back(static_cast<std::uint32_t>(parameters.size()));
    parameters.push_back({"p", at::zeros(shape)});
  }
  for (std::uint32_t owners = 1; owners <= 9; ++owners) {
    SCOPED_TRACE(owners);
    const auto pieces = shares_of_owners(parameters, bucket, owners);
    std::uint32_t owner = 0;
    std::size_t next = 0;  // piece
    for (const auto p : bucket.parameters) {
      const at::Tensor& tensor = parameters[p].tensor;
      std::uint64_t entries = 0;
      std::size_t count = 0;
      for (; next < pieces.size() && pieces[next].parameter == p; ++next, ++count) {
        EXPECT_GE(pieces[next].owner, owner);
        owner = pieces[next].owner;
        EXPECT_LT(owner, owners);
        EXPECT_EQ(pieces[next].first_entry, entries);
        at::Tensor view;
        EXPECT_EQ(static_cast<std::uint64_t>(pieces[next].of(tensor, view).numel()), pieces[next].entries);
        entries += pieces[next].entries;
      }
      EXPECT_GE(count, 1U) << "parameter " << p;
      EXPECT_EQ(entries, static_cast<std::uint64_t>(tensor.numel())) << "parameter " << p;
    }
    EXPECT_EQ(next, pieces.size());
  }
}

TEST(Shares, AreAboutEquallyLarge) {
  const std::vector<NamedTensor> parameters{{"a", at::zeros({1000, 10})}, {"b", at::zeros({3000, 10})}};
  const Bucket bucket{.parameters = {0, 1}, .coded = true};
  std::vector<std::uint64_t> entries(7);
  for (const Piece& piece : shares_of_owners(parameters, bucket, 7)) entries[piece.owner] += piece.entries;
  for (const auto share : entries) EXPECT_NEAR(static_cast<double>(share), 40'000.0 / 7, 10);
}

TEST(Shares, AreViewsThatMayBeUsedForOneTensorAfterTheOther) {
  const std::vector<NamedTensor> parameters{{"a", at::zeros({10, 3, 2})}};
  for (const Piece& piece : shares_of_owners(parameters, {.parameters = {0}, .coded = true}, 3)) {
    at::Tensor view;
    for (const double offset : {0.0, 100.0}) {
      const at::Tensor all = at::arange(offset, offset + 120).view({20, 3, 2}).to(at::kFloat);
      const at::Tensor whole = all.narrow(0, 5, 10);  // which itself begins somewhere in its memory
      const at::Tensor rows = piece.of(whole, view);
      EXPECT_TRUE(rows.is_contiguous());
      EXPECT_TRUE(rows.equal(whole.narrow(0, piece.first_row, piece.rows)));
      EXPECT_EQ(rows.data_ptr(), whole.narrow(0, piece.first_row, piece.rows).data_ptr()) << "not copied";
    }
  }
}

}  // namespace
}  // namespace weir::training
