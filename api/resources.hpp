#pragma once

#include <span>
#include <string_view>

namespace weir::api {

/// A file of the dashboard, as it was when the program was built (embed_dashboard.cmake).
struct Resource {
  std::string_view path;  ///< "/index.html"
  std::string_view content_type;
  std::string_view hash;  ///< of the bytes
  std::string_view bytes;
  std::string_view gzip;  ///< the same compressed, or empty
};

/// All files, in no particular order. Never empty: without a built dashboard there is an index.html that says how to
/// build it.
std::span<const Resource> resources();

/// The file at exactly this path; null if there is none.
inline const Resource* find_resource(std::string_view path) {
  for (const auto& resource : resources())
    if (resource.path == path) return &resource;
  return nullptr;
}

}  // namespace weir::api
