// The same for the TLS streams of Boost.Asio, which only the command line uses.
#include <boost/asio/ssl/impl/src.hpp>
