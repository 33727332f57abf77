#include "runtime/process.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>

#include "runtime/testing/fake_process.hpp"
#include "tests/runtime/run_real.hpp"

namespace weir::runtime {
namespace {

ProcessSpec shell(std::string script) { return {"/bin/sh", {"-c", std::move(script)}, {{"PATH", "/usr/bin:/bin"}}}; }

net::awaitable<Result<std::string>> all_output(Process& process) {
  std::string all;
  while (true) {
    auto piece = co_await process.read_output();
    if (!piece) co_return piece.error();
    if (piece->empty()) co_return all;
    all += *piece;
  }
}

/// The child `pid` of this process exists no more: not even as a zombie.
bool gone(std::uint32_t pid) { return ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH; }

class PosixProcess : public ::testing::Test {
 protected:
  net::io_context io_;
  std::unique_ptr<ProcessSpawner> spawner_ = make_process_spawner();
};

TEST_F(PosixProcess, OutputAndExitCodeArrive) {
  auto process = spawner_->spawn(io_.get_executor(), shell("echo out; echo err >&2; exit 7"));
  ASSERT_TRUE(process) << process.error().message();
  EXPECT_EQ(run_real(io_, all_output(**process)).value(), "out\nerr\n");
  auto exit = run_real(io_, (*process)->wait());
  ASSERT_TRUE(exit);
  EXPECT_EQ(exit->exit_code, 7);
  EXPECT_FALSE(exit->signal);
  EXPECT_TRUE(gone((*process)->pid()));
}

TEST_F(PosixProcess, InputArrivesAndThenStaysOpen) {
  auto spec = shell("read line; echo \"got $line\"; read rest; echo over");
  spec.input = "secret\n";
  auto process = spawner_->spawn(io_.get_executor(), spec);
  ASSERT_TRUE(process) << process.error().message();
  EXPECT_EQ(run_real(io_, (*process)->read_output()).value(), "got secret\n");
  EXPECT_FALSE(gone((*process)->pid()));
  spec.lifeline = false;
  EXPECT_EQ(spawner_->spawn(io_.get_executor(), spec).error().code, Errc::invalid_argument);
}

TEST_F(PosixProcess, ArgumentsAndEnvironmentArriveAsTheyAre) {
  auto spec = shell("printf '%s|%s|%s' \"$1\" \"$WEIR_TEST\" \"$HOME\"");
  spec.arguments.insert(spec.arguments.end(), {"name", "a b;$(c)"});
  spec.environment["WEIR_TEST"] = "x=y";
  auto process = spawner_->spawn(io_.get_executor(), spec);
  ASSERT_TRUE(process);
  EXPECT_EQ(run_real(io_, all_output(**process)).value(), "a b;$(c)|x=y|");
}

TEST_F(PosixProcess, AMissingProgramIsAnError) {
  auto process = spawner_->spawn(io_.get_executor(), {"/nowhere/program", {}, {}});
  ASSERT_FALSE(process);
  EXPECT_EQ(process.error().code, Errc::io);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "no child is left";
}

TEST_F(PosixProcess, ASignalReachesTheWholeGroup) {
  // The leader ignores the signal, and lives until the other process has told of it: its own end would kill the group.
  const std::string other = R"(trap "echo got; exit" TERM; echo ready; while :; do sleep 0.1; done)";
  auto process = spawner_->spawn(io_.get_executor(), shell("sh -c '" + other + "' & trap '' TERM; echo up; wait"));
  ASSERT_TRUE(process);
  std::string said;
  while (said.find("ready\n") == std::string::npos || said.find("up\n") == std::string::npos) {
    const auto more = run_real(io_, (*process)->read_output());
    ASSERT_TRUE(more) << more.error().message();
    ASSERT_FALSE(more->empty()) << said;
    said += *more;
  }
  (*process)->signal(SIGTERM);
  const auto rest = run_real(io_, all_output(**process));
  ASSERT_TRUE(rest) << "nobody but the leader was sent the signal: " << rest.error().message();
  EXPECT_EQ(*rest, "got\n");
  auto exit = run_real(io_, (*process)->wait());
  ASSERT_TRUE(exit);
  EXPECT_EQ(exit->exit_code, 0);
}

TEST_F(PosixProcess, NoDescriptorLeaksIntoTheChild) {
  auto own = spawner_->spawn(io_.get_executor(), shell("read line"));  // its pipes are open in this process now
  auto process = spawner_->spawn(io_.get_executor(), shell("ls /proc/self/fd"));
  ASSERT_TRUE(own && process);
  // 0, 1, 2, the lifeline, and the one that ls opens on the directory.
  EXPECT_EQ(run_real(io_, all_output(**process)).value(), "0\n1\n2\n3\n4\n");
}

TEST_F(PosixProcess, DestroyingItLeavesNoProcess) {
  auto process = spawner_->spawn(io_.get_executor(), shell("trap '' TERM; echo up; cat /dev/zero >/dev/null"));
  ASSERT_TRUE(process);
  EXPECT_EQ(run_real(io_, (*process)->read_output()).value(), "up\n");
  const auto pid = (*process)->pid();
  process->reset();
  EXPECT_TRUE(gone(pid));
}

// Without the fixture, whose spawner has a thread: what it holds at the moment of the fork stays locked in the child.
TEST(PosixLifeline, EndsWithTheParent) {
  // A process of its own starts a grandchild through the spawner and is killed: the grandchild reads the lifeline's end
  // before its death signal, or dies of the signal; either way the pipe that both hold reaches its end.
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // also if the test has failed
    net::io_context io;
    auto spawner = make_process_spawner();
    auto spec = shell("cat <&3; exec cat /dev/zero >/dev/null");
    auto process = spawner->spawn(io.get_executor(), spec);
    const char up = process ? 'u' : 'x';
    (void)!::write(ends[1], &up, 1);
    const std::uint32_t pid = process ? (*process)->pid() : 0;
    (void)!::write(ends[1], &pid, sizeof pid);
    while (true) ::pause();
  }
  ::close(ends[1]);
  char up = 0;
  std::uint32_t grandchild = 0;
  ASSERT_EQ(::read(ends[0], &up, 1), 1);
  ASSERT_EQ(up, 'u');
  ASSERT_EQ(::read(ends[0], &grandchild, sizeof grandchild), static_cast<ssize_t>(sizeof grandchild));
  const int watch = static_cast<int>(::syscall(SYS_pidfd_open, grandchild, 0));
  ASSERT_GE(watch, 0);
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  pollfd poll{watch, POLLIN, 0};
  EXPECT_EQ(::poll(&poll, 1, 60'000), 1) << "the grandchild outlives its parent";
  ::close(watch);
  ::close(ends[0]);
}

TEST(FakeProcess, FollowsItsScript) {
  net::io_context io;
  testing::FakeProcessSpawner spawner;
  auto process = spawner.spawn(io.get_executor(), shell("anything"));
  ASSERT_TRUE(process);
  auto child = spawner.children().at(0);
  child.print("hello");
  EXPECT_EQ(run_real(io, (*process)->read_output()).value(), "hello");
  child.ignore_sigterm();
  (*process)->signal(SIGTERM);
  EXPECT_TRUE(child.alive());
  (*process)->signal(SIGKILL);
  EXPECT_EQ(run_real(io, (*process)->wait())->signal, SIGKILL);
  EXPECT_EQ(run_real(io, (*process)->read_output()).value(), "");
  spawner.fail_next({Errc::io, "no"});
  EXPECT_FALSE(spawner.spawn(io.get_executor(), shell("anything")));
}

}  // namespace
}  // namespace weir::runtime
