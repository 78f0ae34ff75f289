import com.sun.net.httpserver.HttpServer;
import java.io.File;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.Properties;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.minikdc.MiniKdc;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.kerby.kerberos.kerb.client.KrbClient;

/**
 * HDFS with one data node and a Kerberos server of its own, in a folder: says its addresses, and runs
 * until it is killed. In `secrets` there are `krb5.conf`, keytabs of the servers and of a user, and a
 * ticket of that user, as `kinit` would leave it.
 *
 * <p>The arguments: the folder, the user, and for how many milliseconds a delegation token is valid.
 */
public class MiniSecuredHdfs {
  public static void main(String[] arguments) throws Exception {
    Thread.setDefaultUncaughtExceptionHandler((thread, error) -> {
      error.printStackTrace();
      System.exit(1);
    });
    File folder = new File(arguments[0]);
    String user = arguments[1];
    long tokens = Long.parseLong(arguments[2]);
    File secrets = new File(folder, "secrets");
    secrets.mkdirs();
    MiniKdc kdc = new MiniKdc(MiniKdc.createConf(), secrets);
    kdc.start();
    Files.copy(kdc.getKrb5conf().toPath(), secrets.toPath().resolve("krb5.conf"));
    File ofServers = new File(secrets, "servers.keytab");
    kdc.createPrincipal(ofServers, "hdfs/localhost", "yarn/localhost", "HTTP/localhost");
    File ofUser = new File(secrets, "user.keytab");
    kdc.createPrincipal(ofUser, user);
    KrbClient client = new KrbClient(secrets);
    client.init();
    client.storeTicket(
        client.requestTgt(user + "@" + kdc.getRealm(), ofUser), new File(secrets, "ticket"));

    Configuration conf = new Configuration();
    conf.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, new File(folder, "data").getPath());
    conf.set("hadoop.security.authentication", "kerberos");
    for (String server : new String[] {"namenode", "datanode"}) {
      conf.set("dfs." + server + ".kerberos.principal", "hdfs/localhost@" + kdc.getRealm());
      conf.set("dfs." + server + ".keytab.file", ofServers.getPath());
    }
    conf.set("dfs.web.authentication.kerberos.principal", "HTTP/localhost@" + kdc.getRealm());
    conf.set("dfs.web.authentication.kerberos.keytab", ofServers.getPath());
    conf.setBoolean("dfs.block.access.token.enable", true);
    conf.set("dfs.data.transfer.protection", "authentication");
    // Or the data node would want HTTPS.
    conf.setBoolean("ignore.secure.ports.for.testing", true);
    // Nobody can make it last longer.
    conf.setLong("dfs.namenode.delegation.token.renew-interval", tokens);
    conf.setLong("dfs.namenode.delegation.token.max-lifetime", tokens);
    UserGroupInformation.setConfiguration(conf);
    MiniDFSCluster cluster = new MiniDFSCluster.Builder(conf).numDataNodes(1).build();
    cluster.waitActive();
    FileSystem files = cluster.getFileSystem();
    // Nobody else may see anything in there, and nothing else may be changed by the user.
    for (String own : new String[] {"/user/" + user, "/query"}) {
      files.mkdirs(new Path(own));
      files.setOwner(new Path(own), user, user);
      files.setPermission(new Path(own), new FsPermission("700"));
    }
    HttpServer list = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    list.createContext("/", exchange -> {
      StringBuilder found = new StringBuilder();
      RemoteIterator<LocatedFileStatus> all = files.listFiles(new Path("/"), true);
      while (all.hasNext()) {
        found.append(all.next().getPath().toUri().getPath().substring(1)).append('\n');
      }
      byte[] text = found.toString().getBytes(StandardCharsets.UTF_8);
      exchange.sendResponseHeaders(200, text.length == 0 ? -1 : text.length);
      exchange.getResponseBody().write(text);
      exchange.close();
    });
    list.start();
    System.out.println("Kerberos at " + kdc.getRealm());
    System.out.println("Files at http://localhost:" + list.getAddress().getPort());
    System.out.println("HDFS at " + files.getUri());
    Thread.currentThread().join();
  }
}
