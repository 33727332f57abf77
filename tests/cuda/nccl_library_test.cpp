#include "cuda/nccl_library.hpp"

#include <gtest/gtest.h>

#include "base/errc.hpp"

namespace weir::cuda {
namespace {

Error refusal(const char* library) {
  const auto opened = NcclLibrary::open(library);
  EXPECT_FALSE(opened) << library;
  return opened ? Error() : opened.error();
}

TEST(NcclLibrary, WithoutItThereIsAReasonAndWhatToDo) {
  const Error error = refusal("libno-such-thing.so.2");
  EXPECT_EQ(error.code, Errc::not_found);
  EXPECT_EQ(error.context,
            "there is no NCCL: libno-such-thing.so.2 cannot be loaded; install NVIDIA's package libnccl2, or put the "
            "library's folder into LD_LIBRARY_PATH");
}

TEST(NcclLibrary, OneThatIsTooOldIsRefusedWithBothVersions) {
  const Error error = refusal(WEIR_FAKE_NCCL_TOO_OLD_LIBRARY);
  EXPECT_EQ(error.code, Errc::unsupported);
  EXPECT_NE(error.context.find("is of version 2.11.5, and 2.18.0 or newer is needed"), std::string::npos)
      << error.context;
}

TEST(NcclLibrary, ALibraryOfSomethingElseIsRefused) {
  const Error error = refusal("libm.so.6");
  EXPECT_EQ(error.code, Errc::unsupported);
  EXPECT_NE(error.context.find("libm.so.6 is no NCCL that can be used: it has no ncclGetVersion"), std::string::npos)
      << error.context;
}

TEST(NcclLibrary, WhatOnlyNewerOnesHaveMayBeMissing) {
  const auto newer = NcclLibrary::open(WEIR_FAKE_NCCL_LIBRARY).value();
  EXPECT_EQ(nccl_version_text(newer->version()), "2.28.9");
  EXPECT_NE(newer->call().comm_revoke, nullptr);
  const auto older = NcclLibrary::open(WEIR_FAKE_NCCL_BEFORE_LIBRARY).value();
  EXPECT_EQ(nccl_version_text(older->version()), "2.27.3");
  EXPECT_EQ(older->call().comm_revoke, nullptr);
}

TEST(NcclLibrary, VersionsAreWrittenAsNcclNumbersThem) {
  EXPECT_EQ(nccl_version_text(2708), "2.7.8");
  EXPECT_EQ(nccl_version_text(21805), "2.18.5");
}

TEST(NcclLibrary, AnAnswerTellsWhetherSomethingOutsideHasFailed) {
  const auto library = NcclLibrary::open(WEIR_FAKE_NCCL_LIBRARY).value();
  EXPECT_TRUE(library->check(NcclStatus::success, nullptr, "a call"));
  EXPECT_TRUE(library->check(NcclStatus::in_progress, nullptr, "a call"));
  const auto remote = library->check(NcclStatus::remote_error, nullptr, "a call");
  EXPECT_EQ(remote.error().code, Errc::io);
  EXPECT_EQ(remote.error().context, "a call: remote process exited or there was a network error (NCCL error 6)");
  EXPECT_EQ(library->check(NcclStatus::cuda_error, nullptr, "a call").error().code, Errc::internal);
}

/// The one of this machine, if there is one: what is needed of it is there, and works without a GPU.
TEST(NcclLibrary, TheRealOneHasWhatIsNeeded) {
  const auto opened = NcclLibrary::open();
  if (!opened && opened.error().code == Errc::not_found) GTEST_SKIP() << opened.error().context;
  ASSERT_TRUE(opened) << opened.error().context;
  EXPECT_GE((*opened)->version(), NcclLibrary::version_min);
  NcclId id;
  EXPECT_EQ((*opened)->call().get_unique_id(&id), NcclStatus::success);
  EXPECT_NE(id.bytes, NcclId().bytes);
}

}  // namespace
}  // namespace weir::cuda
