package io.teamwire;

import java.io.IOException;
import java.net.Socket;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.MessageDigest;
import java.security.cert.CertificateException;
import java.security.cert.X509Certificate;
import java.util.HexFormat;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509ExtendedTrustManager;

/**
 * Trusts the certificate in the coordinator's chain that has the fingerprint, as the only authority. As with any
 * authority, it must have issued the coordinator's certificate, which must be valid and for the host.
 */
final class PinnedTrustManager extends X509ExtendedTrustManager {
    private final byte[] fingerprint;

    PinnedTrustManager(String fingerprint) {
        this.fingerprint = HexFormat.of().parseHex(fingerprint.replaceFirst("^sha256:", ""));
    }

    @Override
    public void checkServerTrusted(X509Certificate[] chain, String authType, SSLEngine engine)
            throws CertificateException {
        authority(chain).checkServerTrusted(chain, authType, engine);
    }

    @Override
    public void checkServerTrusted(X509Certificate[] chain, String authType, Socket socket)
            throws CertificateException {
        authority(chain).checkServerTrusted(chain, authType, socket);
    }

    @Override
    public void checkServerTrusted(X509Certificate[] chain, String authType) throws CertificateException {
        throw new CertificateException("the host of the certificate is unknown");
    }

    private X509ExtendedTrustManager authority(X509Certificate[] chain) throws CertificateException {
        chain[0].checkValidity();
        try {
            for (var certificate : chain) {
                var digest = MessageDigest.getInstance("SHA-256").digest(certificate.getEncoded());
                if (MessageDigest.isEqual(digest, fingerprint)) {
                    var roots = KeyStore.getInstance(KeyStore.getDefaultType());
                    roots.load(null, null);
                    roots.setCertificateEntry("authority", certificate);
                    var factory = TrustManagerFactory.getInstance("PKIX");
                    factory.init(roots);
                    return (X509ExtendedTrustManager) factory.getTrustManagers()[0];
                }
            }
        } catch (IOException | GeneralSecurityException e) {
            throw new CertificateException(e);
        }
        throw new CertificateException("the coordinator does not present the certificate sha256:"
                + HexFormat.of().formatHex(fingerprint)
                + ", which the join string names. Ask for a new join string; if that does not help, the connection may"
                + " be intercepted");
    }

    @Override
    public void checkClientTrusted(X509Certificate[] chain, String authType) throws CertificateException {
        throw new CertificateException("this is a client");
    }

    @Override
    public void checkClientTrusted(X509Certificate[] chain, String authType, Socket socket)
            throws CertificateException {
        checkClientTrusted(chain, authType);
    }

    @Override
    public void checkClientTrusted(X509Certificate[] chain, String authType, SSLEngine engine)
            throws CertificateException {
        checkClientTrusted(chain, authType);
    }

    @Override
    public X509Certificate[] getAcceptedIssuers() {
        return new X509Certificate[0];
    }
}
