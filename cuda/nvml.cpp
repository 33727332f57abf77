#include "cuda/nvml.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <utility>

#include "base/errc.hpp"

namespace weir::cuda {
namespace {

// NVML's interface, as far as it is used here. It is stable: a changed function gets a new name (_v2).
using Device = void*;
using EventSet = void*;
using Status = int;

constexpr Status success = 0;
constexpr Status gpu_is_lost = 15;

struct Memory {
  unsigned long long total = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;
};
struct Utilization {
  unsigned int gpu = 0;     ///< percent of the time in which a kernel ran
  unsigned int memory = 0;  ///< percent of the time in which the memory's bus was busy: says nothing of memory used
};
struct EventData {
  Device device = nullptr;
  unsigned long long type = 0;
  unsigned long long data = 0;  ///< for xid_event the error's number
  unsigned int gpu_instance = 0;
  unsigned int compute_instance = 0;
};

constexpr int temperature_of_gpu = 0;
constexpr int uncorrected = 1;
constexpr int since_driver_load = 0;
constexpr unsigned long long xid_event = 8;

// Bounds on what the library says.
constexpr unsigned int gpus_max = 256;
constexpr unsigned int events_max = 64;  // taken in one read
constexpr unsigned int temperature_max = 1000;
constexpr unsigned int power_max_milliwatts = 100'000'000;

/// The text in a buffer that may not be terminated, with anything unprintable replaced.
template <std::size_t N>
std::string text_in(const std::array<char, N>& buffer) {
  std::string text(buffer.data(), ::strnlen(buffer.data(), N));
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text;
}

bool is_uuid(const std::string& text) {
  return text.starts_with("GPU-") && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
         });
}

}  // namespace

struct Nvml::State {
  ~State() {
    if (events != nullptr && event_set_free != nullptr) event_set_free(events);
    if (initialised && shutdown != nullptr) shutdown();
    if (handle != nullptr) ::dlclose(handle);
  }

  template <class Function>
  void find(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(::dlsym(handle, name));
  }

  void find_functions() {
    find(init, "nvmlInit_v2");
    find(shutdown, "nvmlShutdown");
    find(error_string, "nvmlErrorString");
    find(driver_version, "nvmlSystemGetDriverVersion");
    find(cuda_version, "nvmlSystemGetCudaDriverVersion_v2");
    find(count, "nvmlDeviceGetCount_v2");
    find(by_index, "nvmlDeviceGetHandleByIndex_v2");
    find(uuid, "nvmlDeviceGetUUID");
    find(name, "nvmlDeviceGetName");
    find(memory, "nvmlDeviceGetMemoryInfo");
    find(utilization, "nvmlDeviceGetUtilizationRates");
    find(power, "nvmlDeviceGetPowerUsage");
    find(temperature, "nvmlDeviceGetTemperature");
    find(ecc_errors, "nvmlDeviceGetTotalEccErrors");
    find(event_set_create, "nvmlEventSetCreate");
    find(event_set_free, "nvmlEventSetFree");
    find(register_events, "nvmlDeviceRegisterEvents");
    find(event_wait, "nvmlEventSetWait_v2");
  }

  std::string text_of(Status status) const {
    const char* text = error_string == nullptr ? nullptr : error_string(status);
    std::array<char, 160> copy{};
    if (text != nullptr) std::strncpy(copy.data(), text, copy.size() - 1);
    return (text == nullptr ? std::string() : text_in(copy) + " ") + "(NVML error " + std::to_string(status) + ")";
  }

  std::optional<Gpu> read(unsigned int index, Device device);
  void listen_to(const std::string& uuid_of_device, Device device);
  void take_events();

  void* handle = nullptr;
  bool initialised = false;

  Status (*init)() = nullptr;
  Status (*shutdown)() = nullptr;
  const char* (*error_string)(Status) = nullptr;
  Status (*driver_version)(char*, unsigned int) = nullptr;
  Status (*cuda_version)(int*) = nullptr;
  Status (*count)(unsigned int*) = nullptr;
  Status (*by_index)(unsigned int, Device*) = nullptr;
  Status (*uuid)(Device, char*, unsigned int) = nullptr;
  Status (*name)(Device, char*, unsigned int) = nullptr;
  Status (*memory)(Device, Memory*) = nullptr;
  Status (*utilization)(Device, Utilization*) = nullptr;
  Status (*power)(Device, unsigned int*) = nullptr;
  Status (*temperature)(Device, int, unsigned int*) = nullptr;
  Status (*ecc_errors)(Device, int, int, unsigned long long*) = nullptr;
  Status (*event_set_create)(EventSet*) = nullptr;
  Status (*event_set_free)(EventSet) = nullptr;
  Status (*register_events)(Device, unsigned long long, EventSet) = nullptr;
  Status (*event_wait)(EventSet, EventData*, unsigned int) = nullptr;

  EventSet events = nullptr;
  std::map<std::string, Device> listening;  ///< by UUID
  std::map<Device, std::uint64_t> xids;     ///< the last one
};

Nvml::Nvml(std::unique_ptr<State> state) : state_(std::move(state)) {}
Nvml::~Nvml() = default;

Result<std::unique_ptr<Nvml>> Nvml::open(const std::string& library) {
  auto state = std::make_unique<State>();
  state->handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (state->handle == nullptr) {
    return Error{Errc::not_found, "there is no NVIDIA driver: " + library + " cannot be loaded"};
  }
  state->find_functions();
  const std::pair<bool, const char*> needed[] = {{state->init != nullptr, "nvmlInit_v2"},
                                                 {state->count != nullptr, "nvmlDeviceGetCount_v2"},
                                                 {state->by_index != nullptr, "nvmlDeviceGetHandleByIndex_v2"},
                                                 {state->uuid != nullptr, "nvmlDeviceGetUUID"}};
  for (const auto& [found, function] : needed) {
    if (!found) {
      return Error{Errc::unsupported, "the NVIDIA driver is too old: its " + library + " has no " + function};
    }
  }
  if (const Status status = state->init(); status != success) {
    return Error{Errc::io, "the NVIDIA driver does not answer: " + state->text_of(status)};
  }
  state->initialised = true;
  return std::unique_ptr<Nvml>(new Nvml(std::move(state)));
}

Result<std::vector<Gpu>> Nvml::read() {
  unsigned int count = 0;
  if (const Status status = state_->count(&count); status != success) {
    return Error{Errc::io, "the GPUs cannot be counted: " + state_->text_of(status)};
  }
  std::vector<Gpu> gpus;
  std::vector<Device> devices;
  for (unsigned int index = 0; index < std::min(count, gpus_max); ++index) {
    Device device = nullptr;
    if (state_->by_index(index, &device) != success) continue;
    auto gpu = state_->read(index, device);
    const auto same = [&gpu](const Gpu& other) { return other.uuid == gpu->uuid; };
    if (!gpu || std::any_of(gpus.begin(), gpus.end(), same)) continue;
    state_->listen_to(gpu->uuid, device);
    gpus.push_back(std::move(*gpu));
    devices.push_back(device);
  }
  state_->take_events();
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (const auto xid = state_->xids.find(devices[i]); xid != state_->xids.end()) gpus[i].sample.xid = xid->second;
  }
  return gpus;
}

/// Nothing if the GPU is lost, or says nothing that identifies it.
std::optional<Gpu> Nvml::State::read(unsigned int index, Device device) {
  std::array<char, 96> text{};
  if (uuid(device, text.data(), text.size()) != success) return std::nullopt;
  Gpu gpu;
  gpu.index = index;
  gpu.uuid = text_in(text);
  if (!is_uuid(gpu.uuid)) return std::nullopt;
  text = {};
  const bool named = name != nullptr && name(device, text.data(), text.size()) == success;
  gpu.name = named && text[0] != '\0' ? text_in(text) : "GPU";
  if (Memory found; memory != nullptr) {
    const Status status = memory(device, &found);
    if (status == gpu_is_lost) return std::nullopt;
    if (status == success) {
      gpu.memory_total_bytes = found.total;
      if (found.used <= found.total) gpu.sample.memory_used_bytes = found.used;
    }
  }
  if (Utilization found; utilization != nullptr) {
    const Status status = utilization(device, &found);
    if (status == gpu_is_lost) return std::nullopt;
    if (status == success && found.gpu <= 100) gpu.sample.utilization = found.gpu / 100.0;
  }
  if (unsigned int found = 0; power != nullptr && power(device, &found) == success && found <= power_max_milliwatts) {
    gpu.sample.power_watts = found / 1000.0;
  }
  if (unsigned int found = 0; temperature != nullptr && temperature(device, temperature_of_gpu, &found) == success &&
                              found <= temperature_max) {
    gpu.sample.temperature_celsius = found;
  }
  if (unsigned long long found = 0;
      ecc_errors != nullptr && ecc_errors(device, uncorrected, since_driver_load, &found) == success) {
    gpu.sample.ecc_errors = found;
  }
  return gpu;
}

/// Where events are missing, their numbers stay unknown.
void Nvml::State::listen_to(const std::string& uuid_of_device, Device device) {
  if (event_set_create == nullptr || register_events == nullptr || event_wait == nullptr) return;
  if (const auto known = listening.find(uuid_of_device); known != listening.end() && known->second == device) return;
  if (events == nullptr && event_set_create(&events) != success) events = nullptr;
  if (events == nullptr || register_events(device, xid_event, events) != success) return;
  listening[uuid_of_device] = device;
}

void Nvml::State::take_events() {
  if (events == nullptr) return;
  for (unsigned int taken = 0; taken < events_max; ++taken) {
    EventData event;
    if (event_wait(events, &event, 0) != success) return;  // with a time of 0 it does not wait
    if (event.type == xid_event) xids[event.device] = event.data;
  }
}

std::string Nvml::driver_version() const {
  std::array<char, 80> text{};
  const bool known = state_->driver_version != nullptr && state_->driver_version(text.data(), text.size()) == success;
  return known ? text_in(text) : std::string();
}

std::string Nvml::cuda_version() const {
  int version = 0;
  if (state_->cuda_version == nullptr || state_->cuda_version(&version) != success || version <= 0) return {};
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace weir::cuda
