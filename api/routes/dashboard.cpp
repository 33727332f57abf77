#include "api/routes/dashboard.hpp"

#include <algorithm>

#include "api/problem.hpp"
#include "api/resources.hpp"

namespace weir::api {
namespace {

bool accepts_gzip(const Request& request) {
  auto rest = request.header("accept-encoding").value_or("");
  while (!rest.empty()) {
    const auto end = rest.find(',');
    auto coding = rest.substr(0, end);
    coding.remove_prefix(std::min(coding.find_first_not_of(' '), coding.size()));
    const auto parameters = coding.find(';');
    const bool refused = parameters != std::string_view::npos && coding.substr(parameters).ends_with("q=0");
    if (coding.substr(0, parameters) == "gzip" && !refused) return true;
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  return false;
}

/// True if the path may be a view of the dashboard: plain names. Views are deep links that only the browser resolves.
bool may_be_view(const Target& target) {
  static constexpr std::string_view punctuation = "-._~:";
  if (!target.segments.empty() && target.segments.front() == "assets") return false;
  for (const auto& segment : target.segments)
    for (const char c : segment)
      if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') &&
          punctuation.find(c) == std::string_view::npos)
        return false;
  return true;
}

}  // namespace

net::awaitable<Reply> dashboard_file(Services&, const Request& request) {
  std::string path;
  for (const auto& segment : request.target.segments) path += "/" + segment;
  const Resource* resource = find_resource(path);
  if (resource == nullptr && may_be_view(request.target)) resource = find_resource("/index.html");
  if (resource == nullptr) co_return problem(404, "there is nothing at " + request.target.path);
  const bool compressed = !resource->gzip.empty() && accepts_gzip(request);
  Reply reply;
  reply.body = Reply::Static{compressed ? resource->gzip : resource->bytes};
  reply.headers = {{"Content-Type", std::string(resource->content_type)},
                   {"ETag", "\"" + std::string(resource->hash) + (compressed ? "-gz\"" : "\"")},
                   {"Vary", "Accept-Encoding"}};
  if (compressed) reply.headers.emplace_back("Content-Encoding", "gzip");
  // A file whose name carries a hash of its content never changes under that name.
  if (path.starts_with("/assets/")) reply.headers.emplace_back("Cache-Control", "public, max-age=31536000, immutable");
  co_return reply;
}

}  // namespace weir::api
