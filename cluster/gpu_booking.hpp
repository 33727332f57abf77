#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

/// Which of a node's GPUs a process gets. Pure functions; the head calls them for placement and for booking.
namespace weir::cluster {

/// The share of each GPU of a node that is not booked, 0 to 1.
using GpuRoom = std::vector<double>;

/// Books `amount` GPUs and takes them from `room`: less than one is a part of the fullest GPU that has room for it, so
/// that one GPU is packed before the next; one or more are whole GPUs, which nobody else has a part of. Returns their
/// positions, none for an amount of 0; each is booked with min(amount, 1). Returns nothing if there is no room.
std::optional<std::vector<std::size_t>> book_gpus(GpuRoom& room, double amount);

/// How many processes can book that amount each, one after the other: at most a million.
std::uint32_t gpu_capacity(std::span<const double> room, double amount);

/// The greatest amount that `processes` (1 or more) can book each, of `gpus` free GPUs; 0 if there are none.
double greatest_gpu_amount(std::size_t gpus, std::uint32_t processes);

}  // namespace weir::cluster
