#include "cluster/gpu_booking.hpp"

#include <algorithm>
#include <cmath>

namespace weir::cluster {
namespace {

constexpr double slack = 1e-9;  // so that three thirds fit
constexpr double capacity_max = 1'000'000;

std::size_t whole_gpus(double amount) { return static_cast<std::size_t>(std::ceil(amount - slack)); }

bool is_free(double room) { return room >= 1 - slack; }

}  // namespace

std::optional<std::vector<std::size_t>> book_gpus(GpuRoom& room, double amount) {
  std::vector<std::size_t> booked;
  if (amount <= 0) return booked;
  if (amount < 1 - slack) {
    std::optional<std::size_t> fullest;
    for (std::size_t i = 0; i < room.size(); ++i) {
      if (room[i] >= amount - slack && (!fullest || room[i] < room[*fullest])) fullest = i;
    }
    if (!fullest) return std::nullopt;
    room[*fullest] = std::max(0.0, room[*fullest] - amount);
    booked.push_back(*fullest);
    return booked;
  }
  for (std::size_t i = 0; i < room.size() && booked.size() < whole_gpus(amount); ++i) {
    if (is_free(room[i])) booked.push_back(i);
  }
  if (booked.size() < whole_gpus(amount)) return std::nullopt;
  for (const std::size_t i : booked) room[i] = 0;
  return booked;
}

std::uint32_t gpu_capacity(std::span<const double> room, double amount) {
  double fit = 0;
  if (amount <= 0) {
    fit = capacity_max;
  } else if (amount < 1 - slack) {
    for (const double free : room) fit += std::floor((free + slack) / amount);
  } else {
    const auto free = static_cast<std::size_t>(std::count_if(room.begin(), room.end(), is_free));
    fit = static_cast<double>(free / whole_gpus(amount));
  }
  return static_cast<std::uint32_t>(std::min(fit, capacity_max));
}

double greatest_gpu_amount(std::size_t gpus, std::uint32_t processes) {
  if (gpus == 0) return 0;
  if (processes <= gpus) return static_cast<double>(gpus / processes);
  return 1.0 / static_cast<double>((processes + gpus - 1) / gpus);
}

}  // namespace weir::cluster
