#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <boost/asio/ssl.hpp>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>

#include "tests/cli/fake_http.hpp"

namespace weir::cli::testing {

/// A key and its certificate, generated for one test.
class Identity {
 public:
  /// A self-signed certificate authority.
  static Identity authority(const std::string& name) {
    Identity made(name, "CA:TRUE", "", std::chrono::hours(1));
    made.sign(made);
    return made;
  }

  /// A server certificate, signed by `authority`. `names` as in "DNS:localhost,IP:127.0.0.1".
  static Identity server(const Identity& authority, const std::string& names,
                         std::chrono::seconds good_for = std::chrono::hours(1)) {
    Identity made("server", "CA:FALSE", names, good_for);
    made.sign(authority);
    return made;
  }

  std::string certificate_pem() const {
    return pem([this](BIO* out) { return PEM_write_bio_X509(out, certificate_.get()); });
  }
  std::string key_pem() const {
    return pem(
        [this](BIO* out) { return PEM_write_bio_PrivateKey(out, key_.get(), nullptr, nullptr, 0, nullptr, nullptr); });
  }

 private:
  Identity(const std::string& name, const char* constraints, const std::string& names, std::chrono::seconds good_for)
      : key_(EVP_EC_gen("P-256"), &EVP_PKEY_free), certificate_(X509_new(), &X509_free) {
    X509* const certificate = certificate_.get();
    X509_set_version(certificate, 2);
    static long serial = 1;
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -24 * 3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), static_cast<long>(good_for.count()));
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    X509_set_pubkey(certificate, key_.get());
    add(NID_basic_constraints, constraints);
    if (!names.empty()) add(NID_subject_alt_name, names);
  }

  void add(int kind, const std::string& value) {
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value.c_str());
    if (extension == nullptr) throw std::runtime_error("no such extension: " + value);
    X509_add_ext(certificate_.get(), extension, -1);
    X509_EXTENSION_free(extension);
  }

  void sign(const Identity& issuer) {
    X509_set_issuer_name(certificate_.get(), X509_get_subject_name(issuer.certificate_.get()));
    if (X509_sign(certificate_.get(), issuer.key_.get(), EVP_sha256()) == 0) throw std::runtime_error("cannot sign");
  }

  template <class Write>
  static std::string pem(Write write) {
    const std::unique_ptr<BIO, decltype(&BIO_free)> out(BIO_new(BIO_s_mem()), &BIO_free);
    if (write(out.get()) != 1) throw std::runtime_error("cannot write PEM");
    char* data = nullptr;
    const long size = BIO_get_mem_data(out.get(), &data);
    return {data, static_cast<std::size_t>(size)};
  }

  std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key_;
  std::unique_ptr<X509, decltype(&X509_free)> certificate_;
};

/// A TLS proxy in front of a head, for tests: sends the same answer to each request, one connection at a time.
class FakeTls {
 public:
  FakeTls(const Identity& identity, std::string reply)
      : reply_(std::move(reply)),
        tls_(context(identity)),
        server_([this](LoopbackServer::Socket& socket) { return serve(socket); }) {}

  std::string port() const { return server_.port(); }

  /// The heads of the requests received, decrypted.
  std::vector<std::string> requests() const {
    std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  static boost::asio::ssl::context context(const Identity& identity) {
    boost::asio::ssl::context made(boost::asio::ssl::context::tls_server);
    const auto certificate = identity.certificate_pem();
    const auto key = identity.key_pem();
    made.use_certificate_chain(boost::asio::buffer(certificate));
    made.use_private_key(boost::asio::buffer(key), boost::asio::ssl::context::pem);
    return made;
  }

  bool serve(LoopbackServer::Socket& socket) {
    boost::system::error_code code;
    boost::asio::ssl::stream<LoopbackServer::Socket&> stream(socket, tls_);
    stream.handshake(boost::asio::ssl::stream_base::server, code);
    boost::asio::streambuf buffer;
    const std::size_t size = code ? 0 : boost::asio::read_until(stream, buffer, "\r\n\r\n", code);
    if (code) return false;
    {
      std::lock_guard lock(mutex_);
      requests_.emplace_back(boost::asio::buffers_begin(buffer.data()),
                             boost::asio::buffers_begin(buffer.data()) + static_cast<std::ptrdiff_t>(size));
    }
    boost::asio::write(stream, boost::asio::buffer(reply_), code);
    stream.shutdown(code);
    return false;
  }

  const std::string reply_;
  boost::asio::ssl::context tls_;
  mutable std::mutex mutex_;
  std::vector<std::string> requests_;
  LoopbackServer server_;  // last: it ends before what it uses
};

}  // namespace weir::cli::testing
