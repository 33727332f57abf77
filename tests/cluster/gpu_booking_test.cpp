#include "cluster/gpu_booking.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <random>

namespace weir::cluster {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(GpuBooking, PacksOneGpuBeforeTheNext) {
  GpuRoom room{1, 1, 0.5};
  EXPECT_THAT(*book_gpus(room, 0.25), ElementsAre(2)) << "the fullest";
  EXPECT_THAT(*book_gpus(room, 0.5), ElementsAre(0)) << "the first of those that have room";
  EXPECT_THAT(*book_gpus(room, 0.25), ElementsAre(2));
  EXPECT_THAT(*book_gpus(room, 0.5), ElementsAre(0));
  EXPECT_THAT(room, ElementsAre(0, 1, 0));
  EXPECT_THAT(*book_gpus(room, 1), ElementsAre(1));
  EXPECT_FALSE(book_gpus(room, 0.1));
  EXPECT_THAT(*book_gpus(room, 0), IsEmpty());
}

TEST(GpuBooking, HalvesDoNotMakeAWhole) {
  GpuRoom room{0.5, 0.5};
  EXPECT_FALSE(book_gpus(room, 1));
  EXPECT_FALSE(book_gpus(room, 0.75));
  EXPECT_EQ(gpu_capacity(room, 1), 0u);
  EXPECT_EQ(gpu_capacity(room, 0.25), 4u);
  EXPECT_THAT(room, ElementsAre(0.5, 0.5)) << "what fails takes nothing";
}

TEST(GpuBooking, ThirdsAndTenthsFillAGpu) {
  for (const int parts : {3, 7, 10, 49}) {
    GpuRoom room{1};
    for (int i = 0; i < parts; ++i) EXPECT_TRUE(book_gpus(room, 1.0 / parts)) << i << " of " << parts;
    EXPECT_FALSE(book_gpus(room, 1.0 / parts));
  }
}

/// Bookings and releases in random order, with the rules checked after each.
TEST(GpuBooking, NeverOverOnePerGpuAndWholeOnesAreNotShared) {
  constexpr std::array amounts = {0.1, 0.25, 1.0 / 3, 0.5, 0.7, 1.0, 2.0, 3.0};
  std::mt19937 random(3);
  std::size_t booked_ones = 0;
  std::size_t refused = 0;
  for (int round = 0; round < 200; ++round) {
    const std::size_t gpus = 1 + random() % 8;
    struct Booking {
      double amount;
      std::vector<std::size_t> gpus;
    };
    std::vector<Booking> bookings;
    const auto room_now = [&] {
      GpuRoom room(gpus, 1);
      for (const auto& one : bookings) {
        for (const auto i : one.gpus) room[i] -= std::min(one.amount, 1.0);
      }
      return room;
    };
    for (int event = 0; event < 60; ++event) {
      if (!bookings.empty() && random() % 3 == 0) {
        bookings.erase(bookings.begin() + static_cast<std::ptrdiff_t>(random() % bookings.size()));
        continue;
      }
      const double amount = amounts[random() % amounts.size()];
      const GpuRoom before = room_now();
      GpuRoom after = before;
      const auto booked = book_gpus(after, amount);
      EXPECT_EQ(booked.has_value(), gpu_capacity(before, amount) > 0);
      if (!booked) {
        EXPECT_EQ(after, before);
        ++refused;
        continue;
      }
      ++booked_ones;
      ASSERT_EQ(booked->size(), static_cast<std::size_t>(std::max(amount, 1.0)));
      for (const auto i : *booked) {
        ASSERT_LT(i, gpus);
        EXPECT_GE(before[i], std::min(amount, 1.0) - 1e-6) << "a whole one was free";
        for (std::size_t other = 0; amount < 1 && other < gpus; ++other) {
          EXPECT_TRUE(before[other] >= before[i] - 1e-6 || before[other] < amount) << "a fuller one has no room";
        }
      }
      bookings.push_back({amount, *booked});
      std::map<std::size_t, int> whole;
      for (const auto& one : bookings) {
        for (const auto i : one.gpus) whole[i] += one.amount >= 1 ? 1 : 0;
      }
      const GpuRoom now = room_now();
      for (std::size_t i = 0; i < gpus; ++i) {
        EXPECT_GE(now[i], -1e-6) << "over one on GPU " << i;
        EXPECT_THAT(after[i], DoubleNear(now[i], 1e-6));
        const auto holders = std::count_if(bookings.begin(), bookings.end(), [i](const Booking& one) {
          return std::find(one.gpus.begin(), one.gpus.end(), i) != one.gpus.end();
        });
        EXPECT_TRUE(whole[i] == 0 || holders == 1) << "GPU " << i << " is whole for one, and another has it too";
      }
    }
  }
  EXPECT_GT(booked_ones, 1000u);
  EXPECT_GT(refused, 1000u);
}

TEST(GpuBooking, AsManyFitAsCanBeBookedOneAfterTheOther) {
  constexpr std::array amounts = {0.1, 0.2, 0.3, 1.0 / 3, 0.5, 0.6, 1.0, 2.0};
  std::mt19937 random(5);
  for (int round = 0; round < 500; ++round) {
    GpuRoom room;
    for (std::size_t i = 0; i < 1 + random() % 6; ++i) {
      room.push_back(random() % 3 == 0 ? 1 : 0.1 * static_cast<double>(random() % 11));
    }
    const double amount = amounts[random() % amounts.size()];
    const auto capacity = gpu_capacity(room, amount);
    std::uint32_t taken = 0;
    while (book_gpus(room, amount)) ++taken;
    EXPECT_EQ(taken, capacity) << "of " << amount << " in round " << round;
  }
}

TEST(GpuBooking, TheGreatestAmountFitsAndTheNextDoesNot) {
  for (std::size_t gpus = 1; gpus <= 8; ++gpus) {
    for (std::uint32_t processes = 1; processes <= 40; ++processes) {
      const double amount = greatest_gpu_amount(gpus, processes);
      const GpuRoom room(gpus, 1);
      EXPECT_GE(gpu_capacity(room, amount), processes);
      EXPECT_LT(gpu_capacity(room, amount < 1 ? std::min(1.0, amount * 1.01) : amount + 1), processes);
    }
  }
  EXPECT_EQ(greatest_gpu_amount(0, 1), 0);
}

}  // namespace
}  // namespace weir::cluster
