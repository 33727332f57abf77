#include "compressors/sparsifiers/warmup.hpp"

#include <algorithm>
#include <cmath>

#include "base/ensure.hpp"

namespace weir::compressors {
namespace {

double exponential(double base, double done) { return std::pow(base, done); }

double paper(double, double done) { return std::pow(0.25, std::floor(4 * done) + 1); }

double authors(double base, double done) { return std::pow(base, (std::floor(5 * done) + 1) / 6); }

}  // namespace

std::vector<std::string_view> Warmup::schedules() { return {"exponential", "paper", "authors"}; }

double Warmup::length(const TrainingCourse& course) const {
  return epochs.value_or(std::min(share_usual(course.rate_falls) * course.epochs, epochs_usual));
}

double Warmup::ratio(double base, const Round& round) const {
  const double whole = length(round.course);
  if (round.epoch >= whole) return base;
  const double start = dense * whole;
  if (round.epoch < start) return 1;
  const double done = (round.epoch - start) / (whole - start);
  if (schedule == "exponential") return std::max(exponential(base, done), base);
  if (schedule == "paper") return std::max(paper(base, done), base);
  ensure(schedule == "authors", "a warm-up's schedule was not validated");
  return std::max(authors(base, done), base);
}

}  // namespace weir::compressors
