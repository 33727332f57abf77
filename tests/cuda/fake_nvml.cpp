// A libnvidia-ml.so.1 for tests. Its GPUs are the lines of the file that WEIR_FAKE_NVML names, read anew whenever they
// are counted:
//
//   GPU UUID|NAME|MEMORY TOTAL|MEMORY USED|UTILIZATION|MILLIWATTS|CELSIUS|ECC ERRORS|XID
//   LOST UUID|...          a GPU that has fallen off the bus
//   ERROR NUMBER           the driver refuses everything with that
//   DRIVER VERSION|CUDA    its own, and the newest CUDA that it is for as 13000; 580.65.06|13000 by default
//
// A field "-" is not supported by that GPU. An XID is an event that comes once for each new number.

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr int success = 0;
constexpr int invalid_argument = 2;
constexpr int not_supported = 3;
constexpr int timeout = 10;
constexpr int gpu_is_lost = 15;

struct Row {
  bool lost = false;
  std::vector<std::string> fields;
};

std::vector<Row> rows;
int refusal = success;
std::string driver;
int cuda = 0;
std::map<std::size_t, std::string> told_xids;

void read_file() {
  rows.clear();
  refusal = success;
  driver = "580.65.06";
  cuda = 13000;
  const char* name = std::getenv("WEIR_FAKE_NVML");
  std::ifstream file(name == nullptr ? "" : name);
  for (std::string line; std::getline(file, line);) {
    const auto space = line.find(' ');
    const std::string kind = line.substr(0, space);
    if (kind == "ERROR") refusal = std::stoi(line.substr(space + 1));
    if (kind == "DRIVER") {
      driver = line.substr(space + 1, line.find('|') - space - 1);
      cuda = std::stoi(line.substr(line.find('|') + 1));
    }
    if (kind != "GPU" && kind != "LOST") continue;
    Row row{kind == "LOST", {}};
    std::istringstream fields(line.substr(space + 1));
    for (std::string field; std::getline(fields, field, '|');) row.fields.push_back(field);
    row.fields.resize(9, "-");
    rows.push_back(std::move(row));
  }
}

std::size_t index_of(void* device) { return reinterpret_cast<std::size_t>(device) - 1; }

int field_of(void* device, std::size_t field, std::string& value) {
  if (index_of(device) >= rows.size()) return invalid_argument;
  const Row& row = rows[index_of(device)];
  if (row.lost) return gpu_is_lost;
  value = row.fields[field];
  return value == "-" ? not_supported : success;
}

template <class T>
int number_of(void* device, std::size_t field, T* value) {
  std::string text;
  const int status = field_of(device, field, text);
  if (status == success) *value = static_cast<T>(std::stoull(text));
  return status;
}

int text_of(void* device, std::size_t field, char* text, unsigned int length) {
  std::string value;
  const int status = field_of(device, field, value);
  if (status == success) std::strncpy(text, value.c_str(), length);  // like NVML's, ended only if it fits
  return status;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  read_file();
  return refusal;
}
int nvmlShutdown() { return success; }
const char* nvmlErrorString(int status) {
  return status == 18 ? "Driver/library version mismatch" : "Some error of the fake";
}
int nvmlSystemGetDriverVersion(char* text, unsigned int length) {
  std::strncpy(text, driver.c_str(), length);
  return success;
}
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = cuda;
  return success;
}
int nvmlDeviceGetCount_v2(unsigned int* count) {
  read_file();
  *count = static_cast<unsigned int>(rows.size());
  return refusal;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void** device) {
  if (index >= rows.size()) return invalid_argument;
  *device = reinterpret_cast<void*>(std::size_t{index} + 1);
  return rows[index].lost ? gpu_is_lost : success;
}
int nvmlDeviceGetUUID(void* device, char* text, unsigned int length) { return text_of(device, 0, text, length); }
int nvmlDeviceGetName(void* device, char* text, unsigned int length) { return text_of(device, 1, text, length); }
int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* total_free_used) {
  const int status = number_of(device, 2, &total_free_used[0]);
  if (status != success) return status;
  const int used = number_of(device, 3, &total_free_used[2]);
  total_free_used[1] = total_free_used[0] - (used == success ? total_free_used[2] : 0);
  return used;
}
int nvmlDeviceGetUtilizationRates(void* device, unsigned int* gpu_and_memory) {
  gpu_and_memory[1] = 99;
  return number_of(device, 4, &gpu_and_memory[0]);
}
int nvmlDeviceGetPowerUsage(void* device, unsigned int* milliwatts) { return number_of(device, 5, milliwatts); }
int nvmlDeviceGetTemperature(void* device, int, unsigned int* celsius) { return number_of(device, 6, celsius); }
int nvmlDeviceGetTotalEccErrors(void* device, int, int, unsigned long long* errors) {
  return number_of(device, 7, errors);
}
int nvmlEventSetCreate(void** set) {
  *set = &told_xids;
  return success;
}
int nvmlEventSetFree(void*) { return success; }
int nvmlDeviceRegisterEvents(void*, unsigned long long, void*) { return success; }

struct FakeEvent {
  void* device;
  unsigned long long type;
  unsigned long long data;
  unsigned int gpu_instance;
  unsigned int compute_instance;
};
int nvmlEventSetWait_v2(void*, FakeEvent* event, unsigned int) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string& xid = rows[i].fields[8];
    if (rows[i].lost || xid == "-" || told_xids[i] == xid) continue;
    told_xids[i] = xid;
    *event = {reinterpret_cast<void*>(i + 1), 8, std::stoull(xid), 0, 0};
    return success;
  }
  return timeout;
}

}  // extern "C"
